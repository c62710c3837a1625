"""`lading top`: one screen of the waiting, running and ended requests, kept up to date.

Two list calls tell of the requests that have not ended and two of those that have ended since the
refresh before, however many there are; one more asks why the first in line waits. A refresh comes
when the websocket tells of a change, and after the interval in any case.
"""

from __future__ import annotations

import asyncio
import errno
import shutil
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click
import msgspec

from lading.cli import display
from lading.cli.options import DURATION
from lading.cli.running import selection
from lading.cli.running.queue_picture import (
    QueuePicture,
    RequestHistory,
    draw,
    first_in_line,
    gpu_count,
    name_of,
)
from lading.cli.running.selection import RequestSelection
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.outcomes import RequestOutcome, changes, until_changed
from lading.core.errors import LadingError
from lading.core.quantities import format_time

# As many as the server gives in one answer, so that there are few calls.
_PAGE: Final = 1000
_LEAST: Final = 0.5
"""Seconds between two refreshes at least: many changes come together."""
_REQUEST: Final = (
    "uuid",
    "name",
    "state",
    "priority",
    "command",
    "created_at",
    "modified_at",
    "container_uuid",
)
_CONTAINER: Final = (
    "uuid",
    "state",
    "exit_code",
    "created_at",
    "started_at",
    "finished_at",
    "progress",
    "runtime_constraints",
    "runtime_status",
)


@click.command()
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="PATTERN",
    help="Show requests with a matching name only, such as 'sort.*'.",
)
@click.option("--project", metavar="PROJECT", help="Show requests of this project only.")
@click.option("--user", metavar="USER", help="Show requests of this user only.")
@click.option(
    "--since", type=DURATION, default="12h", show_default=True, metavar="TIME",
    help="Count requests that ended in this time.",
)  # fmt: skip
@click.option(
    "--interval", type=DURATION, default="2s", show_default=True, metavar="TIME",
    help="Longest time between two updates.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Show it once, and leave.")
@display.json_option
def top(
    names: tuple[str, ...],
    project: str | None,
    user: str | None,
    since: int,
    interval: int,
    once: bool,
) -> None:
    """Show waiting, running and ended requests, with bars, the rate, and the remaining time.

    Ctrl-C leaves; the requests go on.

    The expected time of a request is taken from requests of the same name (without its number) or
    program that have succeeded. Where standard output is no terminal, each change is one line; with
    --json, one JSON object a line.
    """
    criteria = RequestSelection(names=names, project=project, user=user)

    async def action(session: CliSession) -> None:
        watch = _QueueWatch(session, criteria, since)
        async with changes(session.api) as changed:
            with showing(once=once) as show:
                while True:
                    show(await watch.look(datetime.now(UTC)))
                    if once:
                        return
                    await asyncio.sleep(_LEAST)
                    await until_changed(changed, max(0.0, interval - _LEAST))

    try:
        with_session(action)
    # The usual way to leave.
    except KeyboardInterrupt:
        return


@dataclass(slots=True)
class _QueueWatch:
    """Reads the data of one picture after the other."""

    session: CliSession
    criteria: RequestSelection
    since: int
    _history: RequestHistory = field(default_factory=RequestHistory)
    _conditions: list[Any] | None = None
    _latest_change: str = ""
    """`modified_at` of the latest request that was seen to have ended."""

    async def look(self, now: datetime) -> QueuePicture:
        """The picture now."""
        if self._conditions is None:
            self._conditions = await selection.conditions(self.session, self.criteria, now)
            self._latest_change = format_time(now - timedelta(seconds=self.since))
        await self._note_ends()
        opened, total = await self._open()
        head, devices = await self._head(opened), await self._devices(opened)
        return draw(opened, self._history, now, total=total, head=head, devices=devices)

    async def _devices(self, opened: list[RequestOutcome]) -> dict[str, list[str]]:
        """The device files of GPUs by container, where containers have some."""
        if not any(
            gpu_count((outcome.container or {}).get("runtime_constraints") or {})
            for outcome in opened
        ):
            return {}
        devices: dict[str, list[str]] = {}
        # A token of limited scope does not see machines, which is no reason to show nothing.
        with suppress(LadingError):
            answer = await self.session.api.request("GET", "dispatch/machines")
            for report in answer["items"]:
                for machine in report["machines"]:
                    for gpu in machine.get("gpus") or ():
                        if gpu["container"]:
                            devices.setdefault(gpu["container"], []).append(_gpu_in_use(gpu))
        return devices

    async def _open(self) -> tuple[list[RequestOutcome], int]:
        """The oldest requests that have not ended, and how many there are."""
        rows, total = await self._list_open()
        if total > len(rows):
            # Of very many, running requests may not be among the oldest.
            runs, _ = await self._list_open(["container.state", "=", "Running"])
            known = {row["uuid"] for row in rows}
            rows += [row for row in runs if row["uuid"] not in known]
        found = await self._with_containers(rows)
        # The server does not know patterns: then the requests that were read are counted.
        return found, max(len(found), total) if not self.criteria.names else len(found)

    async def _list_open(self, *more: list[str]) -> tuple[list[Record], int]:
        answer: Record = await self.session.api.request(
            "GET",
            "container_requests",
            params={
                "filters": [*(self._conditions or ()), ["state", "=", "Committed"], *more],
                "order": ["created_at asc"],
                "select": _REQUEST,
                "limit": _PAGE,
                "count": "exact",
            },
        )
        return answer["items"], int(answer["items_available"])

    async def _note_ends(self) -> None:
        while True:
            rows = await self.session.api.list(
                "container_requests",
                filters=[
                    *(self._conditions or ()),
                    ["state", "=", "Final"],
                    ["modified_at", ">=", self._latest_change],
                ],
                order=["modified_at asc", "uuid asc"],
                select=_REQUEST,
                limit=_PAGE,
            )
            fresh = [row for row in rows if row["uuid"] not in self._history.uuids]
            for outcome in await self._with_containers(fresh):
                self._history.add(outcome)
            if rows:
                self._latest_change = rows[-1]["modified_at"]
            if len(rows) < _PAGE or not fresh:
                return

    async def _with_containers(self, rows: list[Record]) -> list[RequestOutcome]:
        containers = await selection.containers(self.session, rows, _CONTAINER)
        every = (RequestOutcome(row, containers.get(row["container_uuid"] or "")) for row in rows)
        return [outcome for outcome in every if selection.is_meant(outcome, self.criteria)]

    async def _head(self, opened: list[RequestOutcome]) -> dict[str, str] | None:
        head = first_in_line([outcome for outcome in opened if _waits(outcome)])
        if head is None:
            return None
        answer = await self.session.api.action(
            "container_requests", head.request["uuid"], "container_status", method="GET"
        )
        return {
            "uuid": str(head.request["uuid"]),
            "name": name_of(head.request),
            "why": str(answer.get("scheduling_status") or ""),
        }


def _gpu_in_use(gpu: Record) -> str:
    """A GPU with the share of the time in which it works, where that is known."""
    busy = gpu.get("busy")
    return str(gpu["device"]) if busy is None else f"{gpu['device']} {100 * busy:.0f}%"


def _waits(outcome: RequestOutcome) -> bool:
    return outcome.container is not None and outcome.container["state"] in ("Queued", "Locked")


@contextmanager
def showing(*, once: bool) -> Generator[Callable[[QueuePicture], None]]:
    """A function that shows a picture: as JSON, as a line where it differs, or on the screen."""
    if display.is_json_command():
        yield lambda picture: click.echo(msgspec.json.encode(picture))
        return
    # rich takes long to import.
    from rich.console import Console
    from rich.live import Live

    from lading.cli.running.top_screen import line, screen

    if once or not sys.stdout.isatty():
        last = ""

        def show(picture: QueuePicture) -> None:
            nonlocal last
            if once:
                width, height = shutil.get_terminal_size()
                Console(width=width).print(screen(picture, width=width, height=height))
            # Without the time, which always differs.
            elif (said := line(picture))[8:] != last:
                last = said[8:]
                click.echo(said)

        yield show
        return
    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def refresh(picture: QueuePicture) -> None:
            # rich writes nothing to a terminal that has been closed: the screen of nobody would be
            # made for ever.
            if not sys.stdout.isatty():
                raise OSError(errno.EIO, "the terminal was closed")
            live.update(screen(picture, width=console.width, height=console.height), refresh=True)

        yield refresh
