"""`lading man`: the manual page, made from the commands themselves.

The same tree of commands gives the page of the documentation (`docs.generate`), so that neither can
be out of date.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

import click

from lading import __version__
from lading.cli import display
from lading.core.errors import NotFound

_EXIT = (
    ("0", "Success."),
    ("1", "The server or Lading refused; the message says why."),
    ("2", "Wrong usage."),
    ("124", "Time limit of the command, or of `lading wait --timeout`."),
    ("125", "Refusal or failure of a command that runs something: run, map, wait, hpc run."),
    ("126, 127", "The command of a request cannot be run, or is not in the image."),
    ("129, 143", "The terminal was closed; SIGTERM."),
    ("130", "Ctrl-C."),
    ("141", "Nobody reads the output any more, as below `| head -1`."),
    ("others", "Exit code of the command of a request."),
)
_ENVIRONMENT = (
    ("ARVADOS_API_HOST", "HOST[:PORT] of the server; without it the one of this machine is used."),
    ("ARVADOS_API_TOKEN", "Token of the user."),
    ("ARVADOS_API_HOST_INSECURE", "Set: the certificate of the server is not checked."),
    ("XDG_CACHE_HOME", "Directory of caches; ~/.cache without it."),
)


@dataclass(frozen=True, slots=True)
class DocumentedCommand:
    """A command as manuals show it."""

    path: str
    """As typed: `lading request list`."""
    usage: str
    """Options and arguments, behind the path."""
    paragraphs: tuple[tuple[bool, str], ...]
    """Its description; True: keeps its lines."""
    options: tuple[tuple[str, str], ...]
    """Each with its description."""


@click.command()
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@display.with_json
def man(words: tuple[str, ...]) -> display.Output:
    """Print the manual page, of all commands or of one, in the format of man(1).

    \b
    lading man | man -l -
    lading man request list | man -l -
    lading man > ~/.local/share/man/man1/lading.1
    """
    root = click.get_current_context().find_root().command
    path = " ".join(("lading", *words))
    commands = [
        documented_command
        for documented_command in documented(root)
        if f"{documented_command.path} ".startswith(f"{path} ")
    ]
    if not commands:
        raise NotFound(f"{path}: no such command; see 'lading --help'")
    manual = page(commands)
    yield {"page": manual}
    click.echo(manual, nl=False)


def documented(root: click.Command) -> Iterator[DocumentedCommand]:
    """All commands below `root`, itself included, in the order of the help. Imports all of them."""
    yield from _walk(root, click.Context(root, info_name="lading"))


def _walk(command: click.Command, ctx: click.Context) -> Iterator[DocumentedCommand]:
    if command.hidden:
        return
    records = (
        parameter.get_help_record(ctx)
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
    )
    yield DocumentedCommand(
        path=ctx.command_path,
        usage=" ".join(command.collect_usage_pieces(ctx)),
        paragraphs=tuple(_paragraphs(command.help or "")),
        options=tuple(record for record in records if record is not None),
    )
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            if below is not None:
                yield from _walk(below, click.Context(below, info_name=name, parent=ctx))


def _paragraphs(help_text: str) -> Iterator[tuple[bool, str]]:
    """The paragraphs of a help text; a paragraph that begins with `\\b` keeps its lines."""
    for paragraph in inspect.cleandoc(help_text).split("\n\n"):
        if paragraph.startswith("\b"):
            yield True, paragraph.removeprefix("\b").strip("\n")
        else:
            yield False, " ".join(paragraph.split())


def page(commands: list[DocumentedCommand]) -> str:
    """The manual page of these commands, in the macros of man(7)."""
    first = commands[0]
    lines = [
        f'.TH {first.path.replace(" ", "-").upper()} 1 "" "lading {__version__}" "Lading"',
        ".SH NAME",
        f"{_roff(first.path.replace(' ', '-'))} \\- {_roff(_summary(first))}",
        ".SH SYNOPSIS",
        f".B {_roff(first.path)}",
        _roff(first.usage),
        ".SH DESCRIPTION",
        *_body(first),
    ]
    if len(commands) > 1:
        lines.append(".SH COMMANDS")
    for command in commands[1:]:
        lines += [f".SS {_roff(f'{command.path} {command.usage}')}", *_body(command)]
    for title, pairs in (("EXIT STATUS", _EXIT), ("ENVIRONMENT", _ENVIRONMENT)):
        lines.append(f".SH {title}")
        lines += _pairs(pairs)
    return "\n".join(lines) + "\n"


def _summary(command: DocumentedCommand) -> str:
    """The first sentence of the description."""
    description = command.paragraphs[0][1] if command.paragraphs else ""
    return re.split(r"(?<=[.:])\s", description, maxsplit=1)[0].rstrip(".:")


def _body(command: DocumentedCommand) -> list[str]:
    lines = []
    for keeps_lines, paragraph in command.paragraphs:
        if keeps_lines:
            lines += [
                ".PP",
                ".nf",
                ".RS",
                *(_roff(line) for line in paragraph.split("\n")),
                ".RE",
                ".fi",
            ]
        else:
            lines += [".PP", _roff(paragraph)]
    return [*lines, *_pairs(command.options)]


def _pairs(pairs: tuple[tuple[str, str], ...]) -> list[str]:
    lines = []
    for name, meaning in pairs:
        lines += [".TP", f".B {_roff(name)}", _roff(meaning)]
    return lines


def _roff(line: str) -> str:
    """The line in roff: no character of it commands the formatter."""
    escaped = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def markdown(root: click.Command) -> str:
    """All commands as a page of the documentation."""
    lines = []
    for command in documented(root):
        depth = max(2, len(command.path.split()))
        lines += [f"{'#' * depth} {command.path}\n", f"```\n{command.path} {command.usage}\n```\n"]
        lines += [
            f"```\n{paragraph}\n```\n" if keeps_lines else f"{_plain(paragraph)}\n"
            for keeps_lines, paragraph in command.paragraphs
        ]
        if command.options:
            lines += ["| option | meaning |", "|---|---|"]
            lines += [
                f"| `{_cell(name)}` | {_cell(_plain(meaning))} |"
                for name, meaning in command.options
            ]
            lines.append("")
    return "\n".join(lines)


def _plain(paragraph: str) -> str:
    """The paragraph without meaning for Markdown, but for its code between backquotes."""
    pieces = re.split(r"(`[^`]*`)", paragraph)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([\\*_<>\[\]{}$~])", r"\\\1", piece)
        for piece in pieces
    )


def _cell(cell: str) -> str:
    return cell.replace("|", "\\|")
