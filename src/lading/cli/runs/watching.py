"""`lading runs watch`: the steps of a run, kept up to date until it ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from lading.cli import display
from lading.cli.exit_codes import note_json
from lading.cli.options import DURATION
from lading.cli.runs.commands import time_left, title_of, took
from lading.cli.runs.showing import RunPicture, group_state, look, state_line
from lading.cli.session import CliSession, with_session
from lading.client.outcomes import changes, until_changed
from lading.core.runs.states import RunState
from lading.core.runs.step_groups import failures_of, group_steps, tree_of

if TYPE_CHECKING:
    from rich.console import RenderableType

_LEAST: Final = 0.5
"""Seconds between two looks at least: many changes come together."""
_LIVE: Final = (RunState.WAITING, RunState.RUNNING)
_FAILURES: Final = 3
_CODES: Final = {RunState.DONE: 0, RunState.FAILED: 1, RunState.CANCELLED: 1}


@click.command("watch")
@click.argument("run", default="last")
@click.option(
    "--interval", type=DURATION, default="5s", show_default=True, metavar="TIME",
    help="Longest time between two looks.",
)  # fmt: skip
@click.option("--json", is_flag=True, expose_value=False, callback=note_json,
              help="Print the run as JSON, one object a line.")  # fmt: skip
def watch_run(run: str, interval: int) -> None:
    """Show the steps of RUN, live, until it has ended. The exit code is 0 if it is done, else 1.
    Ctrl-C leaves; the run goes on.

    Where standard output is no terminal, each change is one line.

    \b
    lading runs watch cohort-7
    """

    async def action(session: CliSession) -> RunPicture:
        with _showing() as show:
            async with changes(session.api) as changed:
                while True:
                    picture = await look(session, run, failures=_FAILURES, lines=1)
                    show(picture)
                    if picture.run["state"] not in _LIVE:
                        return picture
                    await asyncio.sleep(_LEAST)
                    await until_changed(changed, max(0.0, interval - _LEAST))

    try:
        picture = with_session(action)
    # The usual way to leave.
    except KeyboardInterrupt:
        return
    sys.exit(_CODES[RunState(picture.run["state"])])


@contextmanager
def _showing() -> Generator[Callable[[RunPicture], None]]:
    """A function that shows a picture: as JSON, as a line where it differs, or on the screen."""
    if display.is_json_command():
        import msgspec

        yield lambda picture: click.echo(msgspec.json.encode(picture.run))
        return
    if not sys.stdout.isatty():
        last = ""

        def tell(picture: RunPicture) -> None:
            nonlocal last
            line = f"{title_of(picture.run)}  {state_line(picture.run)}"
            if line != last:
                last = line
                click.echo(line)

        yield tell
        return
    # rich takes long to import.
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(), auto_refresh=False) as live:
        yield lambda picture: live.update(screen(picture, datetime.now(UTC)), refresh=True)


def screen(picture: RunPicture, now: datetime) -> RenderableType:
    """The picture for a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    run = picture.run
    left = time_left(run, now)
    end = f"  ends in {left}" if left else ""
    head = Text(f"{title_of(run)}  {state_line(run)}  {took(run, now)}{end}", style="bold")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("STEP", "STATE", "DONE", "", "REUSED"):
        table.add_column(heading, no_wrap=True)
    for depth, group in tree_of(group_steps(picture.steps)):
        counts = group.counts
        part = counts.finished / counts.total if counts.total else 0.0
        table.add_row(
            Text("  " * min(depth, 12) + group.name),
            Text(group_state(counts, str(group.state))),
            f"{counts.done}/{counts.total}",
            "█" * round(20 * part) + "░" * (20 - round(20 * part)),
            str(counts.reused or ""),
        )
    failures = [
        Text(
            f"failed {step.name}: {step.fault} {' '.join(picture.lines.get(step.uuid, ()))}", "red"
        )
        for step in failures_of(picture.steps)[:_FAILURES]
    ]
    return Group(head, table, *failures)
