"""The step that a failure comes from, on the command line."""

from __future__ import annotations

import json

import pytest

from tests.cli.site import Play, Site, perform


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


def _run(site: Site, image: str, *command: str, play: Play | None = None) -> str:
    done = site.command(
        "run", "--json", "--image", image, "--", *command, plays=[play or Play()], code=0
    )
    return str(json.loads(done.stdout)["uuid"])


def test_a_failure_comes_first(site: Site, image: str) -> None:
    play = Play(exit_code=3, stderr=b"one\n\x1b[31mValueError\x1b[0m: \x07x\n")
    site.command("run", "--image", image, "--name", "bad", "--", "bad", plays=[play], code=3)
    for command in ("show", "why"):
        lines = site.lading("request", command, "bad").stdout.splitlines()
        assert lines[:4] == [
            "failed 3, last lines of standard error", "  | one", "  | ValueError: \\x07x", ""
        ]  # fmt: skip
        shown = json.loads(site.lading("request", command, "--json", "bad").stdout)
        assert (shown["last_lines"][0], shown["failed_step"]) == ("one", None)
    _run(site, image, "good")
    assert json.loads(site.lading("request", "show", "--json", "last").stdout)["last_lines"] == []
    assert "never compared" not in site.lading("request", "why", "last").stdout
    assert "never compared: " in site.lading("request", "why", "--verbose", "last").stdout


def test_why_climbs_to_the_step_that_failed(site: Site, image: str) -> None:
    run = ("run", "--detach", "--image", image)
    play = Play(exit_code=4, stderr=b"no such sample\n")
    first = site.lading(*run, "--name", "align", "--", "align").stdout.strip()
    site.lading(*run, "--name", "sort", "--after", first, "--", "sort")
    last = site.lading(*run, "--name", "plot", "--after", "sort", "--", "plot").stdout.strip()
    container = site.call(site.world.ok("GET", f"container_requests/{first}"))["container_uuid"]
    site.call(perform(site.world, site.call(site.world.ok("GET", f"containers/{container}")), play))
    head, line, *_ = site.lading("request", "why", last).stdout.splitlines()
    assert head == f"failed step: align ({first}) failed 4, last lines of standard error"
    assert line == "  | no such sample"
    assert f"failed step: align ({first})" in site.lading("request", "show", last).stdout
    shown = json.loads(site.lading("request", "why", "--json", last).stdout)["failed_step"]
    assert (shown["uuid"], shown["last_lines"]) == (first, ["no such sample"])
    waited = site.lading("wait", "plot", code=125).stdout
    assert f"failed step: align ({first}) failed 4" in waited
    assert "  | no such sample" in waited
