"""Metrics of the block store of one server: blocks and bytes that went in and out."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter

_WAYS: Final = ("http", "file")


class BlockMetrics:
    """Counts the traffic of blocks. The metrics of HTTP count calls and errors."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Without a registry the counts are shown nowhere."""
        registry = registry if registry is not None else CollectorRegistry()
        self._read = Counter(
            "lading_block_read_bytes",
            "Bytes of blocks that were read, by way: http, or file, for readers on this machine.",
            ["way"],
            registry=registry,
        )
        self._reads = Counter(
            "lading_block_reads",
            "Blocks that were read, by way.",
            ["way"],
            registry=registry,
        )
        self._written = Counter(
            "lading_block_written_bytes", "Bytes of blocks that clients stored.", registry=registry
        )
        self._writes = Counter(
            "lading_block_writes", "Blocks that clients stored.", registry=registry
        )
        self._damaged = Counter(
            "lading_block_damaged_reads",
            "Reads that failed because every copy of the block is damaged.",
            registry=registry,
        )
        for way in _WAYS:
            # Every series is there from the start with 0.
            self._read.labels(way)
            self._reads.labels(way)

    def note_read(self, size: int, *, as_file: bool = False) -> None:
        """Count a block of `size` bytes that was read."""
        way = "file" if as_file else "http"
        self._read.labels(way).inc(size)
        self._reads.labels(way).inc()

    def note_write(self, size: int) -> None:
        """Count a block of `size` bytes that was stored."""
        self._written.inc(size)
        self._writes.inc()

    def note_damage(self) -> None:
        """Count a read of which no copy was right."""
        self._damaged.inc()
