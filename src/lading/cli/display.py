"""Output of commands: tables for people, JSON for programs, progress bars.

Results go to standard output, all other messages to standard error. Progress is drawn only on a
terminal, and only if the work takes longer than half a second.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, ParamSpec, TypeAlias

import click

from lading.cli.exit_codes import is_json, note_json
from lading.cli.hangup import unread
from lading.core.errors import Invalid

# Names of this module too: texts for people come from one place.
from lading.core.quantities import age as age
from lading.core.quantities import bounded, show_bytes
from lading.core.quantities import duration as duration
from lading.core.quantities import shorten as shorten
from lading.core.quantities import size as size

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_Parameters = ParamSpec("_Parameters")
# Seconds before a progress bar appears.
_PATIENCE = 0.5
_GAP = "  "
_LEAST = 24
"""Characters of the last column of a table before optional columns are left out."""
_COLOURS = {
    "done": "green",
    "running": "cyan",
    "cancelled": "red",
    "waiting": "yellow",
    "failed": "red",
    "ok": "green",
    "warning": "yellow",
    "missing": "red",
}

_QUIET = "lading.quiet"
"""The key of `--quiet` in the context of a command."""
json_option = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=note_json,
    help="Print JSON, for programs.",
)
"""The option of a command that asks `is_json_command` itself; others have `with_json`."""
Output: TypeAlias = Iterator[object]
"""The result of a command `with_json`, before it is printed for people."""


class Conclusion(NamedTuple):
    """A result of a command that ends with another exit code than 0."""

    document: object
    exit_code: int


def with_json(command: Callable[_Parameters, Output]) -> Callable[_Parameters, int]:
    """Decorator of a command with `--json`. The command yields its result, and prints it for people
    after that: with `--json` the result is printed as a JSON document, and the command ends at the
    `yield`. The exit code is 0, or that of a `Conclusion`.
    """

    @functools.wraps(command)
    def run(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> int:
        return show(command(*args, **kwargs))

    return json_option(run)


def show(output: Output) -> int:
    """Print a result: as a JSON document with `--json`, else as its function does. The exit
    code.
    """
    code = 0
    for result in output:
        document, code = result if isinstance(result, Conclusion) else (result, 0)
        if is_json_command():
            emit_json(document)
            break
    return code


def emit_json(value: object) -> None:
    """Print one JSON document, indented."""
    # Imported here: `lading --help` should not wait for it.
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def plain(value: str) -> str:
    """A text from another user, a name for example, with control characters spelt out (`\\x1b`), so
    that it cannot control the terminal.
    """
    if value.isprintable():
        return value
    return show_bytes(
        "".join(
            character if character.isprintable() else character.encode("unicode_escape").decode()
            for character in value
        )
    )


def note_quiet(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    """Callback of `--quiet`: `note`, `progress` and `steps` of this command show nothing."""
    if value:
        ctx.meta[_QUIET] = True
    return value


def is_quiet_command() -> bool:
    """Whether the present command has `--quiet`."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(_QUIET))


def is_json_command() -> bool:
    """Whether the present command was given `--json`."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and is_json(ctx)


def note(message: str) -> None:
    """Print a message on standard error, if anybody reads it, and the command has no `--quiet`."""
    if not is_quiet_command():
        warn(message)


def warn(message: str) -> None:
    """Print a message about a fault on standard error, if anybody reads it."""
    with unread():
        click.echo(f"lading: {bounded(plain(message))}", err=True)


def confirm(question: str) -> None:
    """Ask on standard error, as standard output is for results. Raises Invalid for "no", and where
    nobody can answer.
    """
    try:
        if click.confirm(question, err=True):
            return
    except click.Abort:
        # Ctrl-C at a terminal; else the end of standard input.
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise Invalid("standard input has no answer; --yes gives it, nothing was changed") from None
    raise Invalid("nothing was changed")


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    optional: Sequence[str] = (),
    is_cut: bool = True,
) -> None:
    """Print rows below headings, in columns; states are coloured on a terminal.

    On a narrow terminal the columns `optional` are left out, the first one first, and texts of the
    last column are cut if `is_cut`. Output to a file or a program is never cut.
    """
    lines = [list(headings), *([_one_line(cell) for cell in row] for row in rows)]
    if is_cut and sys.stdout.isatty():
        # Imported here: it imports modules for each kind of compression.
        import shutil

        lines = fit(lines, shutil.get_terminal_size().columns, optional)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for number, line in enumerate(lines):
        padded = [cell.ljust(width) for cell, width in zip(line[:-1], widths, strict=False)]
        # The last column is not padded, so that lines do not end with blanks.
        click.echo(_GAP.join(_paint(cell, number == 0) for cell in (*padded, line[-1])))


def fit(lines: list[list[str]], width: int, optional: Sequence[str] = ()) -> list[list[str]]:
    """The lines of a table, headings first, cut to `width` characters by the rules of `table`.
    Uuids are never cut.
    """
    left = list(optional)
    while True:
        columns = list(zip(*lines, strict=True))
        lengths = [max(len(cell) for cell in column) for column in columns]
        room = width - sum(lengths[:-1]) - len(_GAP) * (len(columns) - 1)
        if room >= min(lengths[-1], _LEAST):
            break
        if (name := next((heading for heading in left if heading in lines[0][:-1]), None)) is None:
            break
        left.remove(name)
        gone = lines[0].index(name)
        lines = [[*line[:gone], *line[gone + 1 :]] for line in lines]
    if lines[0][-1] == "UUID":
        return lines
    return [[*line[:-1], shorten(line[-1], max(room, len(lines[0][-1])))] for line in lines]


def fields(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair per line; empty values are left out."""
    known = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        click.echo(f"{click.style(name.ljust(width), bold=True)}  {_one_line(value)}")


def write_all(stream: BinaryIO, data: bytes) -> None:
    """Write all of `data`; a stream without a buffer (PYTHONUNBUFFERED) may accept a part at a
    time.
    """
    left = memoryview(data)
    while left:
        left = left[stream.write(left) :]
    stream.flush()


@contextmanager
def progress(
    label: str, *, is_quiet: bool = False, is_bytes: bool = True, patience: float = _PATIENCE
) -> Generator[Callable[[int, int], None]]:
    """A function that takes the bytes (or things) done and the total, shown as a bar on standard
    error once `patience` seconds have passed; not with `--json`.
    """
    if is_quiet or not _shows_progress():
        yield lambda _done, _total: None
        return
    bar = _Bar(label, is_bytes=is_bytes, patience=patience)
    try:
        yield bar.report
    finally:
        bar.close()


@contextmanager
def steps(label: str) -> Generator[Callable[[str, int, int], None]]:
    """A function that takes the current step, the number done and the total (0: unknown), shown on
    standard error; not with `--json`.
    """
    if not _shows_progress():
        yield lambda _step, _done, _total: None
        return
    # rich takes long to import; only a terminal needs it.
    from rich.console import Console

    with Console(stderr=True).status(label) as shown:
        yield lambda step, done, total: shown.update(
            f"{label}: {step} {done}{f' of {total}' if total else ''}"
        )


def _shows_progress() -> bool:
    return sys.stderr.isatty() and not (is_quiet_command() or is_json_command())


class _Bar:
    """A progress bar that appears after a moment."""

    def __init__(self, label: str, *, is_bytes: bool, patience: float) -> None:
        self._label = label
        self._is_bytes = is_bytes
        self._due = time.monotonic() + patience
        self._shown: tuple[Progress, TaskID] | None = None

    def report(self, done: int, total: int) -> None:
        if self._shown is None:
            # Never shown for work that is done at once.
            if time.monotonic() < self._due or done >= total:
                return
            self._shown = self._open(total)
        with unread():
            self._shown[0].update(self._shown[1], completed=done, total=total)

    def close(self) -> None:
        if self._shown is not None:
            with unread():
                self._shown[0].stop()

    def _open(self, total: int) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        speed: tuple[Any, ...] = (DownloadColumn(binary_units=True), TransferSpeedColumn())
        numbers = speed if self._is_bytes else (MofNCompleteColumn(),)
        columns = (TextColumn("{task.description}"), BarColumn(), *numbers, TimeRemainingColumn())
        shown = Progress(*columns, console=Console(stderr=True), transient=True)
        shown.start()
        return shown, shown.add_task(self._label, total=total)


def _one_line(value: str) -> str:
    return plain(" ".join(value.split()))


def _paint(cell: str, is_heading: bool) -> str:
    # The first word of a state: "failed 5".
    colour = _COLOURS.get(cell.partition(" ")[0])
    return (
        click.style(cell, bold=True)
        if is_heading
        else click.style(cell, fg=colour)
        if colour
        else cell
    )
