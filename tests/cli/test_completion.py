"""Completion scripts, and completion itself."""

from __future__ import annotations

import json

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from lading.cli.main import cli


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str) -> None:
    done = CliRunner().invoke(cli, ["completion", shell])
    assert "_LADING_COMPLETE" in done.stdout
    answer = json.loads(CliRunner().invoke(cli, ["completion", "--json", shell]).stdout)
    assert answer == {"shell": shell, "script": done.stdout.removesuffix("\n")}


@pytest.mark.parametrize(
    ("words", "start", "found"),
    [
        ([], "req", ["request"]),
        (["request"], "l", ["list", "logs"]),
        (["run"], "--prev", ["--preview"]),
        (
            ["run"],
            "--st",
            ["--stdin", "--strict-output", "--storage-class", "--start-after", "--step"],
        ),
    ],
)
def test_words(words: list[str], start: str, found: list[str]) -> None:
    completer = ShellComplete(cli, {}, "lading", "_LADING_COMPLETE")
    assert [one.value for one in completer.get_completions(words, start)] == found
