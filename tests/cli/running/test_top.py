"""lading top against a real API."""

from __future__ import annotations

import json

import pytest

from tests.cli.site import Play, Site


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


@pytest.fixture(scope="module", autouse=True)
def some(site: Site, image: str) -> None:
    """A request that succeeded, one that was reused, one that failed, and two that wait."""

    def run(name: str, *command: str, play: Play | None = None, code: int = 0) -> None:
        arguments = ("run", "--image", image, "--name", name, "--", *command)
        if play is None:
            site.lading(*arguments, code=code)
        else:
            site.command(*arguments, plays=[play], code=code)

    run("top.0", "top", play=Play())
    run("top.1", "top")
    run("top.2", "bad", play=Play(exit_code=5), code=5)
    for number in (3, 4):
        site.lading(
            "run",
            "--detach",
            "--image",
            image,
            "--name",
            f"top.{number}",
            "--",
            "wait",
            str(number),
        )


def test_one_json_object(site: Site) -> None:
    done = site.lading("top", "--once", "--json", "--since", "9999d")
    (one,) = [json.loads(text) for text in done.stdout.splitlines()]
    counts = {name: one[name] for name in ("waiting", "running", "succeeded", "failed", "reused")}
    assert counts == {"waiting": 2, "running": 0, "succeeded": 2, "failed": 1, "reused": 1}
    assert one["head"]["name"] == "top.3"
    assert one["ends"][0]["name"] == "top.2"
    assert one["ends"][0]["state"] == "failed 5"


def test_one_screen(site: Site) -> None:
    said = site.lading("top", "--once", "--since", "9999d").stdout
    assert "2 succeeded   1 failed   2 waiting" in said
    assert "NEXT  top.3" in said


def test_only_some(site: Site) -> None:
    def count(*arguments: str) -> tuple[int, int]:
        one = json.loads(
            site.lading("top", "--once", "--json", "--since", "9999d", *arguments).stdout
        )
        return one["waiting"], one["succeeded"] + one["failed"]

    assert count("--name", "top.[24]") == (1, 1)
    site.lading("project", "create", "empty")
    assert count("--project", "empty") == (0, 0)
