"""`lading preview`, and `lading map --preview`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.site import Play, Site


def _pipeline(site: Site, here: Path) -> None:
    image = site.call(site.world.ensure_image())
    (here / "x").write_text("1")
    run = ("run", "--image", image, "--name")
    clean = Play(files={"kept": b"1"})
    site.command(*run, "clean", "--env", "Q=1", "--input", "/in=x", "--", "c", plays=[clean])
    after = ("--input", "/in=last", "--after", "last")
    site.command(*run, "plot", *after, "--", "p", plays=[Play(files={"plot": b"2"})])


def test_a_recorded_pipeline_with_another_value(site: Site, here: Path) -> None:
    _pipeline(site, here)
    assert site.lading("preview", "plot").stdout == "2 steps: 2 reused\n"
    seen = site.lading("preview", "plot", "--env", "Q=2").stdout.splitlines()
    assert seen[0] == "2 steps: 0 reused, 2 to run because Q changed"
    assert seen[3].startswith("clean")
    assert seen[3].endswith("Q changed")
    assert seen[-1].startswith("before, 2 of these 2 took")
    assert (
        "no step has this variable" in site.lading("preview", "plot", "--env", "R=1", code=1).stderr
    )


def test_the_workflow_of_a_crate(site: Site, here: Path) -> None:
    _pipeline(site, here)
    site.lading("export", "plot", "--tree", "-o", "crate")
    seen = json.loads(site.lading("preview", "--json", "crate/workflow.json").stdout)
    assert seen["summary"] == "2 steps: 2 reused"
    assert [one["name"] for one in seen["steps"]] == ["clean", "plot"]


def test_files_that_are_no_pipeline(site: Site, here: Path) -> None:
    cases = {"{": "no JSON", "{}": "must have", "[]": "must have", '[{"mounts": 5}]': "must have"}
    for text, fault in cases.items():
        (here / "w.json").write_text(text)
        assert fault in site.lading("preview", "w.json", code=1).stderr
    (here / "w.json").write_text(json.dumps([{}] * 1001))
    assert "1000 are possible" in site.lading("preview", "w.json", code=1).stderr


def test_map(site: Site, here: Path) -> None:
    image = site.call(site.world.ensure_image())
    for name in ("a", "b"):
        (here / name).write_text(name)
    call = ("map", "--image", image, "--name", "sort", "--input", "/in={}", "--env", "Q=1", "-i")
    site.command(*call, "a", "--", "sort", plays=[Play()])
    seen = site.lading(*call, "?", "--preview", "--", "sort").stdout
    assert seen.startswith("2 steps: 1 reused, 1 to run because its inputs changed")
    listed = json.loads(site.lading("request", "list", "--name", "sort.*", "--json").stdout)
    assert len(listed) == 1
