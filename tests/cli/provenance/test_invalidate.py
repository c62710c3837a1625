"""`lading invalidate` against a real API."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.site import Play, Site


def _pipeline(site: Site, here: Path) -> None:
    image = site.call(site.world.ensure_image())
    (here / "x").write_text("1")
    run = ("run", "--image", image, "--name")
    site.command(*run, "clean", "--input", "/in=x", "--", "c", plays=[Play(files={"kept": b"1"})])
    after = ("--input", "/in=last", "--after", "last")
    site.command(*run, "plot", *after, "--", "p", plays=[Play(files={"plot": b"2"})])


def test_a_result_is_withdrawn_and_what_follows_is_marked(site: Site, here: Path) -> None:
    _pipeline(site, here)
    seen = site.lading("invalidate", "clean", "--reason", "bad lot", "--preview").stdout
    assert "would be withdrawn:" in seen
    done = json.loads(site.lading("invalidate", "clean", "--reason", "bad lot", "--json").stdout)
    assert [one["name"] for one in done["changed"]] == ["clean"]
    assert [one["name"] for one in done["made_from_them"]] == ["plot"]
    shown = site.lading("request", "show", "clean").stdout
    assert "withdrawn" in shown
    assert "bad lot" in shown
    why = site.lading("request", "why", "plot").stdout
    assert "made from withdrawn" in why
    site.lading("invalidate", "clean", "--undo")
    assert "bad lot" not in site.lading("request", "why", "plot").stdout


def test_a_result_is_withdrawn_for_oneself(site: Site, here: Path) -> None:
    _pipeline(site, here)
    done = site.lading("invalidate", "clean", "--reason", "bad lot", "--for-me", "--json").stdout
    assert [one["name"] for one in json.loads(done)["changed"]] == ["clean"]
    assert "bad lot" not in site.lading("request", "show", "clean").stdout
    undone = site.lading("invalidate", "clean", "--undo", "--for-me", "--json").stdout
    assert [one["name"] for one in json.loads(undone)["changed"]] == ["clean"]


def test_all_results_of_an_image_or_a_collection(site: Site, here: Path) -> None:
    _pipeline(site, here)
    image = site.call(site.world.ensure_image())
    done = site.lading("invalidate", image, "--reason", "old tool", "--json").stdout
    assert {one["name"] for one in json.loads(done)["changed"]} == {"clean", "plot"}
    site.lading("invalidate", image, "--undo")
    given = site.lading("put", "--name", "samples", "x").stdout.split()[0]
    done = site.lading("invalidate", "samples", "--reason", "r", "--all", "--json").stdout
    assert {one["name"] for one in json.loads(done)["changed"]} == {"clean", "plot"}
    del given


def test_what_cannot_be_withdrawn(site: Site, here: Path) -> None:
    del here
    image = site.call(site.world.ensure_image())
    site.lading("run", "--image", image, "--detach", "--name", "waits", "--", "x")
    assert "Give --reason" in site.lading("invalidate", "waits", code=2).stderr
    nothing = site.lading("invalidate", "waits", "--reason", "r")
    assert "no such result" in nothing.stderr
    path = site.lading("invalidate", "waits/x", "--reason", "r", code=1)
    assert "not a file in it" in path.stderr


def test_runs_that_gave_the_same_are_withdrawn_together(site: Site, here: Path) -> None:
    del here
    image = site.call(site.world.ensure_image())
    for name in ("one", "two"):
        run = ("run", "--image", image, "--no-reuse", "--name", name, "--", "x")
        site.command(*run, plays=[Play()])
    shown = site.lading("request", "show", "one").stdout
    assert "reproduced" in shown
    assert "1 of 1" in shown
    done = site.lading("invalidate", "one", "--reason", "r", "--json").stdout
    assert {one["name"] for one in json.loads(done)["changed"]} == {"one", "two"}
    undone = site.lading("invalidate", "one", "--undo", "--json").stdout
    assert {one["name"] for one in json.loads(undone)["changed"]} == {"one", "two"}
    again = site.lading("invalidate", "one", "--undo", code=1)
    assert "its result is not withdrawn" in again.stderr
