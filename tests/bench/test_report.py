"""The table and the JSON of a benchmark."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from bench.api.http import Run
from bench.figures import absent, calls, durations, throughput
from bench.report import table, write

FIGURES = [
    durations("latency", [0.05], p50_limit=80),
    throughput("rate", 300, 20.0, least=20),
    absent("docker", "not installed"),
]


def test_the_table_is_aligned_and_says_what_was_broken() -> None:
    lines = table(FIGURES).splitlines()
    assert lines[2].split() == [
        "latency",
        "1",
        "50.0",
        "ms",
        "50.0",
        "ms",
        "p50",
        "<=",
        "80",
        "ms",
        "kept",
    ]
    assert lines[3].split() == ["rate", "300", "15.0", "/s", ">=", "20", "/s", "BROKEN"]
    assert lines[-1] == "docker: not installed"


def test_processor_time_has_its_columns_where_it_was_measured() -> None:
    run = Run(seconds=1.0, latencies=[0.001], server=0.0004)
    lines = table([calls("get", run), FIGURES[0]]).splitlines()
    assert lines[0].split() == ["what", "n", "p50", "p99", "rate", "server", "promise"]
    assert lines[2].split()[-2:] == ["0.40", "ms"]


def test_the_json_names_the_machine(tmp_path: Path) -> None:
    write(tmp_path / "build" / "bench.json", FIGURES, now=datetime(2026, 1, 2, tzinfo=UTC))
    content = json.loads((tmp_path / "build" / "bench.json").read_text())
    assert content["measured_at"] == "2026-01-02T00:00:00+00:00"
    assert content["machine"]["processors"] > 0
    assert [one["name"] for one in content["figures"]] == ["latency", "rate", "docker"]
