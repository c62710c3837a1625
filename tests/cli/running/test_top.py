"""lading top against a real API."""

from __future__ import annotations

import io
import json

import pytest

from lading.cli.running.top import showing
from tests.cli.running.test_top_screen import picture
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
    assert (one["ends"][0]["state"], one["ends"][0]["status"]) == ("Complete", "failed 5")


def test_one_screen(site: Site) -> None:
    said = site.lading("top", "--once", "--since", "9999d").stdout
    assert "2 done   1 failed   2 waiting" in said
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


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_each_change_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with showing(once=False) as show:
        show(picture())
        show(picture(at="2026-01-02T03:04:09+00:00"))
        show(picture(waiting=116))
    assert [text.split()[1] for text in capsys.readouterr().out.splitlines()] == ["117", "116"]


def test_on_a_terminal_the_screen_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with showing(once=False) as show:
        show(picture())
        show(picture(waiting=116))
    # The alternate screen, entered and left.
    assert terminal.getvalue().count("\x1b[?1049h") == 1
    assert terminal.getvalue().count("\x1b[?1049l") == 1
    assert "117 waiting" in terminal.getvalue()
    assert "116 waiting" in terminal.getvalue()
