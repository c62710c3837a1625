"""`lading runs`: the list."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from lading.cli.runs import commands
from tests.cli.runs.runs_site import read, submit
from tests.cli.site import Play, Site


def test_lists(site: Site, image: str, here: Path) -> None:
    assert "no run" in site.lading("runs").stderr
    submit(site, image, "first", "a", play=Play())
    submit(site, image, "second", "b", play=Play())
    assert [run["name"] for run in read(site, "list")] == ["second", "first"]
    assert [run["name"] for run in read(site, "list", "-n", "1")] == ["second"]
    assert len(read(site, "list", "--user", "me", "--since", "90000h")) == 2
    assert not read(site, "list", "--state", "failed")
    assert "did you mean" not in site.lading("runs", "--help").stdout


def test_texts_of_a_row() -> None:
    assert commands.parameters_line({"k": 25, "reads": "a.fq"}) == "k=25 reads=a.fq"
    assert [commands.dollars(amount) for amount in (0.0, 0.001, 1.5)] == ["", "<0.01", "1.50"]


def test_the_time_left() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert commands.time_left({}, now) == commands.time_left({"expected_end": None}, now) == ""
    assert commands.time_left({"expected_end": "2026-01-02T00:05:00Z"}, now) == "about 5 min"
    assert commands.time_left({"expected_end": "2026-01-01T00:00:00Z"}, now) == "a few seconds"
