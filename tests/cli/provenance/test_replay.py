"""`lading replay` against a real API and block store."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.site import Play, Site


def _run(site: Site, name: str, play: Play, *more: str) -> None:
    image = site.call(site.world.ensure_image())
    site.command("run", "--image", image, "--name", name, *more, "--", "sort", plays=[play])


def test_equal_and_other_outputs(site: Site, here: Path) -> None:
    del here
    play = Play(files={"a": b"1", "out": b"the same"})
    _run(site, "one", play)
    assert site.command("replay", "one", plays=[play]).stdout == "reproduced 1 of 1\n"
    other = Play(files={"a": b"1", "out": b"the sand"})
    lines = site.command("replay", "one", plays=[other], code=1).stdout.splitlines()
    assert lines[1].endswith("out differs at byte 6")
    assert lines[-1] == "reproduced 0 of 1"
    (found,) = json.loads(site.command("replay", "--json", "one", plays=[other], code=1).stdout)
    assert (found["name"], found["reproduced"], found["fault"]) == ("one", False, None)
    assert found["difference"] == {"path": "out", "offset": 6, "before": 8, "after": 8}


def test_a_tree_names_the_step_that_does_not_repeat(site: Site, here: Path) -> None:
    del here
    _run(site, "clean", Play(files={"x": b"1"}), "--no-reuse")
    uuid = json.loads(site.lading("request", "show", "--json", "clean").stdout)["uuid"]
    _run(site, "plot", Play(files={"y": b"2"}), "--no-reuse", "--after", uuid)
    plays = [Play(files={"x": b"3"}), Play(files={"y": b"2"})]
    done = site.command("replay", "--tree", "plot", plays=plays, code=1)
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    assert rows["clean"].endswith("x differs at byte 0")
    assert rows["plot"].endswith("equal")
    assert rows["reproduced"] == "reproduced 1 of 2"


def test_what_has_nothing_to_compare(site: Site, here: Path) -> None:
    del here
    _run(site, "good", Play(), "--no-reuse")
    failed = Play(error="no disk", files={})
    again = site.command("replay", "good", plays=[failed], code=1)
    assert "not finished: no disk" in again.stdout
    other = site.command("replay", "good", plays=[Play(exit_code=3)], code=1)
    assert "exit code 3, it was 0" in other.stdout
    image = site.call(site.world.ensure_image())
    site.lading("run", "--image", image, "--detach", "--name", "waits", "--", "x")
    assert "has no result" in site.lading("replay", "waits", code=1).stderr


def test_a_failure_does_not_hide_the_result_before_it(site: Site, here: Path) -> None:
    del here
    play = Play(files={"a": b"1"})
    _run(site, "twice", play, "--no-reuse")
    image = site.call(site.world.ensure_image())
    failing = ("run", "--image", image, "--name", "twice", "--", "sort", "--bad")
    site.command(*failing, plays=[Play(exit_code=3, files={})], code=3)
    done = site.command("replay", "twice", plays=[play])
    assert done.stdout == "reproduced 1 of 1\n"
    assert "is failed 3 and has no output" in done.stderr
