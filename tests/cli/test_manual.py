"""The manual page, and the page of the documentation, from the tree of commands."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lading.cli.main import cli
from lading.cli.manual import DocumentedCommand, documented, markdown, page


def manual(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, ["man", *words], obj=object())
    assert done.exit_code == code
    return done.stdout if code == 0 else done.stderr


def test_every_command_is_in_the_manual() -> None:
    paths = [one.path for one in documented(cli)]
    assert paths[:2] == ["lading", "lading run"]
    assert {"lading request list", "lading hpc run", "lading top", "lading man"} <= set(paths)
    text = manual()
    for path in paths[1:]:
        assert f".SS {path.replace('-', chr(92) + '-')} " in text
    assert text.startswith(".TH LADING 1 ")
    assert ".SH EXIT STATUS" in text


def test_the_wheel_has_the_page() -> None:
    root = Path(__file__).parents[2]
    declared = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    (path,) = declared["data-files"]["share/man/man1"]
    assert (root / path).read_text() == manual()


def test_of_one_command_and_what_is_below() -> None:
    text = manual("request")
    assert text.startswith(".TH LADING-REQUEST 1 ")
    assert ".SS lading request list" in text
    assert ".SS lading run" not in text
    assert "lading nosuch: no such command" in manual("nosuch", code=1)
    assert json.loads(manual("run", "--json"))["page"] == manual("run")


def test_no_text_commands_the_formatter() -> None:
    one = DocumentedCommand(
        "lading x", "A|B", ((False, ".so /etc/passwd"), (True, "'a\\b\n-c")), ((".o", "'q"),)
    )
    text = page([one])
    assert "\n.so" not in text
    assert "\\&.so /etc/passwd" in text
    assert "\\&'a\\eb\n\\-c" in text
    assert ".B \\&.o\n\\&'q" in text


def test_markdown_keeps_lines_and_escapes() -> None:
    @click.command()
    @click.option("--size", metavar="N|M", help="A <size> of *it*, as `a_b`.")
    @click.option("--secret", hidden=True)
    def one(size: str, secret: str) -> None:
        """First sentence. Second
        line.

        \b
        lading one   --size 5
        """

    text = markdown(one)
    assert "First sentence. Second line.\n" in text
    assert "```\nlading one   --size 5\n```" in text
    assert r"| `--size N\|M` | A \<size\> of \*it\*, as `a_b`. |" in text
    assert "secret" not in text


def test_hidden_commands_are_left_out() -> None:
    @click.group()
    def group() -> None:
        """All."""

    group.add_command(click.Command("seen", help="Seen."))
    group.add_command(click.Command("unseen", hidden=True))
    assert [one.path for one in documented(group)] == ["lading", "lading seen"]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_no_complaints() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww"],
        input=manual(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
