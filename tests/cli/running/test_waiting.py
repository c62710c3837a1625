"""`lading wait`."""

from __future__ import annotations

import json

import pytest

from tests.cli.site import Play, Site


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


def test_waiting_has_an_end(site: Site, image: str) -> None:
    one = site.lading("run", "--detach", "--image", image, "--", "for", "ever").stdout.strip()
    done = site.lading("wait", one, "--timeout", "1s", code=124)
    assert "1 of 1 have not ended after" in done.stderr
    told = json.loads(site.lading("wait", one, "--timeout", "1s", "--json", code=124).stderr)
    assert told["error"]["exit_code"] == 124
    site.lading("request", "cancel", one)


def test_the_first_that_failed_gives_the_exit_code(site: Site, image: str) -> None:
    for name, code in (("w.0", 0), ("w.1", 7), ("other", 5)):
        site.command(
            "run", "--image", image, "--name", name, "--", "waits", name,
            plays=[Play(exit_code=code, stderr=b"went wrong\n" * bool(code))], code=code,
        )  # fmt: skip
    assert "0 of 1 succeeded" in site.lading("wait", "last", code=5).stderr
    ended = site.lading("wait", "--name", "w.*", code=7)
    assert "1 of 2 succeeded" in ended.stderr
    assert "w.1: exit code 7\n  | went wrong\n" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("wait",), "Name requests, or give --name, --project, --user"),
        (("wait", "--name", "no such.*"), "no such request"),
        (("wait", "--project", "zzzzz-j7d0g-000000000000000"), "no such request"),
    ],
)
def test_mistakes_are_named(site: Site, arguments: tuple[str, ...], said: str) -> None:
    assert said in site.lading(*arguments, code=125).stderr


def test_those_with_a_property(site: Site, image: str) -> None:
    for value, code in (("x", 0), ("y", 4)):
        site.command(
            "run", "--image", image, "--property", f"batch={value}", "--", "batch", value,
            plays=[Play(exit_code=code)], code=code,
        )  # fmt: skip
    assert "1 of 1 succeeded" in site.lading("wait", "--property", "batch=x").stderr
    site.lading("wait", "--property", "batch=y", "--since", "9999d", code=4)
