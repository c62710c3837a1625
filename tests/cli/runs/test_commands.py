"""`lading runs`: the list."""

from __future__ import annotations

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
