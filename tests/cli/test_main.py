"""The command line as a whole: help, errors in one line, exit codes, speed."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from lading import __version__
from lading.cli.main import LazyGroup, cli, main
from lading.core.errors import Invalid


def test_help_names_every_command_with_its_own_first_sentence() -> None:
    text = CliRunner().invoke(cli, ["--help"]).stdout
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert f"  {name} " in text
    assert "This machine:" in text


@pytest.mark.parametrize("group", ["runs", "template", "doctor", "mcp", "login"])
def test_help_has_an_example(group: str) -> None:
    command = cli.get_command(click.Context(cli), group)
    assert command is not None
    names = (
        command.list_commands(click.Context(command)) if isinstance(command, click.Group) else []
    )
    for words in [[group, name] for name in names] or [[group]]:
        usage, _, help_text = CliRunner().invoke(cli, [*words, "--help"]).stdout.partition("\n")
        assert usage.startswith("Usage:")
        assert any(f"lading {' '.join(words)}" in line for line in help_text.splitlines()), words


@pytest.mark.parametrize("words", [[], ["request"], ["admin"]])
def test_a_group_without_a_command_shows_its_help(words: list[str]) -> None:
    done = CliRunner().invoke(cli, words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == CliRunner().invoke(cli, [*words, "--help"]).stdout


def test_help_imports_little() -> None:
    code = (
        "import sys, lading.cli.main as m\n"
        "try:\n m.cli.main(['--help'])\nexcept SystemExit: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"aiohttp", "rich", "msgspec", "yaml", "asyncio", "cryptography", "ssl"}
    assert heavy.isdisjoint(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["logs"],
            "lading: no such command 'logs'; did you mean request logs or instance logs?"
            " (see 'lading --help')",
        ),
        (["imag"], "lading: no such command 'imag'; did you mean image? (see 'lading --help')"),
        (["xyzzy"], "lading: no such command 'xyzzy' (see 'lading --help')"),
        (["--xyzzy"], "lading: No such option"),
        (["request", "xyzzy"], "lading: No such command 'xyzzy'"),
        (["completion", "tcsh"], "lading: Invalid value for"),
    ],
)
def test_wrong_use_is_one_line_and_2(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == 1


def _raising(error: BaseException) -> LazyGroup:
    @click.group("lading", cls=LazyGroup, invoke_without_command=True)
    def group() -> None:
        raise error

    return group


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Invalid("two\nlines"), 1, "lading: two lines\n"),
        (ExceptionGroup("g", [ExceptionGroup("h", [Invalid("inner")])]), 1, "lading: inner\n"),
        (click.ClickException("odd"), 1, "lading: odd\n"),
        (click.Abort(), 130, "\nlading: interrupted\n"),
        (KeyboardInterrupt(), 130, "\nlading: interrupted\n"),
        (click.UsageError("no context"), 2, "lading: no context (see 'lading --help')\n"),
    ],
)
def test_errors_are_one_line(error: BaseException, code: int, said: str) -> None:
    done = CliRunner().invoke(_raising(error), [])
    assert (done.exit_code, done.stderr.lstrip()) == (code, said.lstrip())


def test_faults_of_ours_are_not_hidden() -> None:
    fault = CliRunner().invoke(_raising(ExceptionGroup("g", [Invalid("x"), KeyError("y")])), [])
    assert isinstance(fault.exception, ExceptionGroup)


@pytest.mark.parametrize(
    "code",
    [
        "m.cli.main(['--help'])",
        # Of a command that is at work in a loop, with others.
        "import click\n"
        "@m.cli.command()\n"
        "def group(): raise BaseExceptionGroup('', [BrokenPipeError(32, '')])\n"
        "m.LazyGroup.get_command = lambda *_: group\n"
        "m.cli.main(['group'], obj=1)",
    ],
)
def test_a_reader_that_left_is_no_error(code: str) -> None:
    ours, theirs = os.pipe()
    # Before the command starts, as it may be quick.
    os.close(ours)
    done = subprocess.run(
        [sys.executable, "-c", f"import lading.cli.main as m\n{code}"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(theirs)
    assert b"Traceback" not in done.stderr
    assert done.returncode == 141


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command line of this process, to be filled."""
    argv = ["lading"]
    monkeypatch.setattr(sys, "argv", argv)
    return argv


def test_the_entry_point(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments.append("--version")
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    assert capsys.readouterr().out == f"lading {__version__}\n"
