"""Tables of kept figures in a page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bench.figure_tables import fill, table
from bench.figures import Figure, absent, durations, throughput

MACHINE = {"kind": "2 cores", "load": 0.5}


def content(*figures: Figure) -> dict[str, Any]:
    rows = [asdict(one) for one in figures]
    return {"machine": MACHINE, "measured_at": "2026-01-02T03:04:05+00:00", "figures": rows}


def test_a_table_has_the_columns_that_something_stands_in() -> None:
    kept = content(
        durations("wait", [0.0161], p50_limit=12),
        throughput("rate", 300, 2.0, least=40),
        absent("docker", "not installed"),
    )
    assert table(kept).splitlines() == [
        "2 cores; 2026-01-02; load of the last quarter of an hour 0.5:",
        "",
        "| what | p50 | p99 | rate | promise |",
        "| --- | --- | --- | --- | --- |",
        "| wait | 16.1 ms | 16.1 ms |  | p50 <= 12 ms: broken |",
        "| rate |  |  | 150/s | >= 40 /s: kept |",
    ]


def test_a_page_gets_the_table_in_its_place_and_keeps_everything_else() -> None:
    page = "a\n<!-- figures: x -->\nold\n<!-- end of figures -->\nb\n"
    kept = content(throughput("rate", 1, 1.0))
    filled = fill(page, "x", kept)
    assert filled.startswith("a\n<!-- figures: x -->\n2 cores")
    assert filled.endswith("| rate | 1.0/s |\n<!-- end of figures -->\nb\n")
    assert fill(filled, "x", kept) == filled
    assert fill(page, "y", kept) == page


def test_long_times_are_seconds() -> None:
    assert "| 14.0 s |" in table(content(durations("case", [14.0])))
