"""Exit codes of commands that run something, and errors as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.site import Play, Site


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--image", "nosuch:1", "--", "c"),
        ("run", "--nosuch", "--", "c"),
        ("run",),
        ("run", "--input", "/in=./nosuch", "--", "c"),
        ("wait", "nosuch"),
        ("wait",),
        ("map", "-i", "nosuch/*", "--", "c"),
        ("request", "logs", "-f", "nosuch"),
        ("hpc", "run", "--size", "1", "--", "c"),
    ],
)
def test_own_failures_are_125(site: Site, here: Path, arguments: tuple[str, ...]) -> None:
    done = site.lading(*arguments, code=125)
    assert done.stderr.startswith("lading: ")


def test_other_commands_keep_theirs(site: Site) -> None:
    site.lading("request", "logs", "nosuch", code=1)
    site.lading("request", "show", "--nosuch", code=2)


@pytest.mark.parametrize(
    ("play", "code"),
    [
        (Play(exit_code=7), 7),
        (Play(exit_code=137), 137),
        (Play(error="stopped after its max_run_time of 2 s", failure="timeout"), 124),
        (Play(error="the command cannot be started: executable file `x` not found"), 127),
        (Play(error="the command cannot be started: exec: permission denied"), 126),
        (Play(error="the machine is gone", failure="user"), 125),
    ],
)
def test_the_code_is_that_of_the_command(site: Site, image: str, play: Play, code: int) -> None:
    arguments = ("--image", image, "--name", f"ends.{code}", "--no-reuse", "--", "ends", str(code))
    site.command("run", *arguments, plays=[play], code=code)
    site.lading("wait", f"ends.{code}", code=code)
    site.lading("request", "logs", "-f", f"ends.{code}", code=code)


def test_errors_are_json_for_programs(site: Site) -> None:
    def error(*arguments: str, code: int) -> dict[str, object]:
        done = site.lading(*arguments, code=code)
        assert done.stdout == ""
        found: dict[str, object] = json.loads(done.stderr)["error"]
        return found

    missing = error("request", "show", "--json", "zzzzz-xvhdp-000000000000000", code=1)
    assert (missing["status"], missing["exit_code"]) == (404, 1)
    assert "not found" in str(missing["message"])
    usage = error("request", "show", "--json", "--nosuch", code=2)
    assert "see 'lading request show --help'" in str(usage["message"])
    assert error("run", "--json", "--image", "nosuch:1", "--", "c", code=125)["exit_code"] == 125
    # That of the user's command.
    assert site.lading("run", "--nosuch", "--", "c", "--json", code=125).stderr.startswith("lading")
