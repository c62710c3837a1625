"""`lading diff` of requests, against a real API and block store."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.site import Play, Site


def _run(site: Site, name: str, text: bytes, *more: str) -> None:
    image = site.call(site.world.ensure_image())
    command = ("run", "--image", image, "--name", name, *more, "--", "sort")
    site.command(*command, plays=[Play(files={"out": text})])


def test_the_cause_in_an_earlier_step(site: Site, here: Path) -> None:
    del here
    for number in ("1", "2"):
        _run(site, f"clean.{number}", number.encode(), "--env", f"Q={number}")
        _run(site, f"plot.{number}", b"p" + number.encode(), "--input", "/in=last")
    lines = site.lading("diff", "plot.1", "plot.2", code=1).stdout.splitlines()
    assert lines[0] == "first cause: clean.2: environment.Q was 1, and is 2"
    assert [line.split() for line in lines[3:5]] == [
        ["plot.2", "mounts./in", "(made", "by", "an", "earlier", "step)"],
        ["clean.2", "environment.Q", "1", "2"],
    ]
    assert "~ out (2 B)" in lines
    assert lines[-2:] == ["    -p1", "    +p2"]
    found = json.loads(site.lading("diff", "--json", "plot.1", "plot.2", code=1).stdout)
    assert [one["is_cause"] for one in found["steps"]] == [False, True]
    assert found["steps"][1]["differences"] == [
        {"field": "environment.Q", "before": "1", "after": "2"}
    ]
    assert [one["path"] for one in found["files"]] == ["out"]
    assert site.lading("diff", "--files", "plot.1", "plot.2", code=1).stdout == "~ out (2 B)\n"


def test_equal_requests_and_others(site: Site, here: Path) -> None:
    del here
    _run(site, "same.1", b"s", "--no-reuse")
    _run(site, "same.2", b"s", "--no-reuse")
    _run(site, "changes", b"c", "--no-reuse")
    done = site.lading("diff", "same.1", "same.2").stdout
    assert "one computation" in done
    assert "outputs are equal" in done
    assert "it does not repeat" in site.lading("diff", "same.1", "changes", code=1).stdout
    image = site.call(site.world.ensure_image())
    site.lading("run", "--image", image, "--detach", "--name", "waits", "--", "x")
    assert "has no output" in site.lading("diff", "same.1", "waits", code=1).stderr
    assert "no request has this name" in site.lading("diff", "same.1", "nosuch", code=1).stderr
    # A request and data are compared by files.
    assert site.lading("diff", "same.1", "last/out", code=1).stderr


def test_why_climbs_to_the_step_that_differs(site: Site, here: Path) -> None:
    del here
    for number in ("5", "6"):
        _run(site, f"wash.{number}", number.encode(), "--env", f"Q={number}")
        _run(site, f"show.{number}", b"s" + number.encode(), "--input", "/in=last", "--env", "S=1")
    seen = site.lading("request", "why", "show.6").stdout.splitlines()
    assert seen[-1] == "first cause: wash.6: environment.Q was 5, and is 6"
    found = json.loads(site.lading("request", "why", "--json", "wash.6").stdout)
    assert found["first_cause"] is None
