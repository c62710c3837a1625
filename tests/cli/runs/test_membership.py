"""Requests of the command line that are steps of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.runs.runs_site import read
from tests.cli.site import Play, Site


def test_map_makes_the_steps_of_one_run(site: Site, image: str, here: Path) -> None:
    for name in ("a", "b"):
        (here / f"{name}.fq").write_text(name)
    site.command(
        "map", "--image", image, "--run", "mapped", "--step", "count", "-i", "*.fq",
        "--input", "/in={}", "--", "wc", "/in",
        plays=[Play(), Play()],
    )  # fmt: skip
    document = read(site, "show", "mapped")
    assert [(step["name"], step["counts"]["done"]) for step in document["steps"]] == [("count", 2)]
    tree = site.lading("runs", "show", "mapped", "--all").stdout
    assert "wc.0" in tree


def test_a_variable_makes_steps_of_one_attempt(
    site: Site, image: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LADING_RUN", "script")
    monkeypatch.setenv("LADING_SESSION", "first")
    for number in range(2):
        site.command("run", "--image", image, "--", "step", str(number), plays=[Play()])
    monkeypatch.setenv("LADING_SESSION", "second")
    site.lading("run", "--image", image, "--", "step", "0")
    document = read(site, "show", "script")
    assert (document["attempt"], document["counts"]["reused"]) == (2, 1)
    assert read(site, "show", "script#1")["counts"]["total"] == 2
    assert "script#2" in site.lading("runs").stdout


def test_a_project_is_no_run(site: Site, image: str, here: Path) -> None:
    site.lading("project", "create", "plain")
    fault = site.lading("run", "--image", image, "--run", "plain", "--", "x", code=125).stderr
    assert "is a project that is no run" in fault
