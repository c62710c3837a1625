"""Counts of blocks and bytes."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from lading.blobs.metrics import BlockMetrics


def test_traffic_is_counted_by_way() -> None:
    registry = CollectorRegistry()
    metrics = BlockMetrics(registry)
    metrics.note_read(4)
    metrics.note_read(8, as_file=True)
    metrics.note_write(16)
    metrics.note_damage()
    value = registry.get_sample_value
    assert value("lading_block_read_bytes_total", {"way": "http"}) == 4
    assert value("lading_block_read_bytes_total", {"way": "file"}) == 8
    assert value("lading_block_written_bytes_total") == 16
    assert value("lading_block_damaged_reads_total") == 1


def test_without_a_registry_nothing_is_shared() -> None:
    # Two parts of one process, as in tests, must not meet in the registry of the library.
    BlockMetrics().note_write(1)
    BlockMetrics().note_write(1)
