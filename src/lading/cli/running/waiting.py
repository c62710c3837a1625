"""`lading wait`: wait for many requests, and say how they ended.

The exit code is 0 if all of them succeeded, else the exit code of the first that failed. Changes
arrive over the websocket; without one, the server is polled, at least once a second.
"""

from __future__ import annotations

import asyncio
import fnmatch
import re
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import click

from lading.cli import display
from lading.cli.options import DURATION
from lading.cli.references import find_request
from lading.cli.running.following import RequestOutcome, exit_code, reason
from lading.cli.session import CliSession, with_session
from lading.client.api import ApiClient, Record, events
from lading.core.errors import LadingError, NotFound

_SHORTEST, _LONGEST, _GROWTH = 0.05, 1.0, 1.6
_PAGE = 500
"""Requests of one list call: with 1,000 uuids in a filter the address of the call grows long."""
_SHOWN = ["uuid", "name", "state", "priority", "container_uuid", "output_uuid", "log_uuid"]
_TIMED_OUT = 124
"""As timeout(1) of GNU coreutils."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A request that is Final, with its exit code; 0 if and only if it succeeded."""

    outcome: RequestOutcome
    code: int

    @property
    def line(self) -> str:
        """The name and the fault, for people."""
        request, container = self.outcome.request, self.outcome.container
        name = display.plain(request["name"] or "")
        if container is None:
            fault = f"it never ran (see: lading request why {request['uuid']})"
        elif container["state"] == "Complete":
            fault = f"exit code {container['exit_code']}"
        else:
            fault = reason(container)
        return f"failed  {request['uuid']}  {name + ': ' if name else ''}{fault}"


@click.command()
@click.argument("requests", nargs=-1, metavar="[REQUEST]...")
@click.option("--name", metavar="PATTERN", help="Those with such a name, as 'sort.*'.")
@click.option("--project", metavar="UUID", help="Those of this project.")
@click.option("--timeout", type=DURATION, default="0", metavar="TIME", help="Wait no longer.")
@display.json_option
def wait(
    requests: tuple[str, ...], name: str | None, project: str | None, timeout: int, as_json: bool
) -> None:
    """Wait until requests have ended: those that are named, or those with a NAME or of a PROJECT.

    The exit code is 0 if all have succeeded, else that of the first that failed; 124 after
    --timeout. Ctrl-C ends the waiting, and no request.
    """
    if not (requests or name or project):
        raise click.UsageError("Name requests, or give --name or --project.")

    async def action(session: CliSession) -> list[Ended]:
        found = await _find(session, requests, name, project)
        async with asyncio.timeout(timeout or None):
            return await wait_for_all(session.api, found, is_quiet=as_json)

    try:
        ended = with_session(action)
    except TimeoutError:
        display.note(f"some have not ended after {display.duration(timeout)}")
        sys.exit(_TIMED_OUT)
    if as_json:
        display.emit_json([_row(one) for one in ended])
    else:
        show_end(ended)
    sys.exit(worst(ended))


async def wait_for_all(
    api: ApiClient, uuids: Sequence[str], *, is_quiet: bool = False
) -> list[Ended]:
    """Wait until all of the requests are Final; how they ended, in the order of `uuids`. Raises
    NotFound for one that was deleted, and the errors of the API.
    """
    ended: dict[str, Ended] = {}
    left, pause = list(dict.fromkeys(uuids)), _SHORTEST
    with display.progress("requests", is_quiet=is_quiet, is_bytes=False) as show:
        async with _changes(api) as changed:
            while left:
                found = [
                    one
                    for start in range(0, len(left), _PAGE)
                    for one in await _look(api, left[start : start + _PAGE])
                ]
                ended |= {str(one.outcome.request["uuid"]): one for one in found}
                left = [uuid for uuid in left if uuid not in ended]
                show(len(ended), len(ended) + len(left))
                pause = _SHORTEST if found else min(_LONGEST, pause * _GROWTH)
                if left:
                    await _pause(changed, pause)
    return [ended[uuid] for uuid in uuids]


def show_end(ended: Sequence[Ended]) -> None:
    """Print how many have succeeded, and those that failed, one a line."""
    bad = [one for one in ended if one.code]
    for one in bad:
        click.echo(one.line)
    display.note(f"{len(ended) - len(bad)} of {len(ended)} succeeded")


def worst(ended: Sequence[Ended]) -> int:
    """The exit code for all of them: of the first that failed."""
    return next((one.code for one in ended if one.code), 0)


async def _find(
    session: CliSession, named: Sequence[str], name: str | None, project: str | None
) -> list[str]:
    found = [str((await find_request(session, one))["uuid"]) for one in named]
    filters: list[Any] = []
    if name is not None:
        # Only narrows the list: the pattern is applied below.
        fixed = re.split(r"[*?[%_\\\\]", name, maxsplit=1)[0]
        filters.append(["name", "like", f"{fixed}%"])
    if project is not None:
        filters.append(["owner_uuid", "=", project])
    if filters:
        filters.append(["state", "!=", "Uncommitted"])
        shown = ["uuid", "name", "created_at"]
        async with aclosing(
            session.api.pages("container_requests", filters=filters, select=shown)
        ) as pages:
            rows = [row async for page in pages for row in page]
        rows.sort(key=lambda row: row["created_at"])
        found += [
            row["uuid"] for row in rows if fnmatch.fnmatchcase(row["name"] or "", name or "*")
        ]
        if not found:
            raise NotFound("no such request; see 'lading request list'")
    return list(dict.fromkeys(found))


async def _look(api: ApiClient, uuids: Sequence[str]) -> list[Ended]:
    rows = await api.list(
        "container_requests", filters=[["uuid", "in", uuids]], select=_SHOWN, limit=_PAGE
    )
    missing = set(uuids) - {row["uuid"] for row in rows}
    if missing:
        raise NotFound(f"{min(missing)}: was deleted")
    final = [row for row in rows if row["state"] == "Final"]
    wanted = [row["container_uuid"] for row in final if row["container_uuid"]]
    containers: dict[str, Record] = {}
    if wanted:
        held = await api.list(
            "containers",
            filters=[["uuid", "in", wanted]],
            select=["uuid", "state", "exit_code", "runtime_status", "output"],
            limit=_PAGE,
        )
        containers = {row["uuid"]: row for row in held}
    outcomes = [RequestOutcome(row, containers.get(row["container_uuid"] or "")) for row in final]
    return [Ended(one, exit_code(one)) for one in outcomes]


@asynccontextmanager
async def _changes(api: ApiClient) -> AsyncGenerator[asyncio.Event]:
    """An event that is set with each change that the websocket tells."""
    changed = asyncio.Event()

    async def listen() -> None:
        try:
            async with aclosing(events(api)) as heard:
                async for _ in heard:
                    changed.set()
        except LadingError:
            # The server has no websocket: the polls are enough.
            return

    listener = asyncio.create_task(listen(), name="events")
    try:
        yield changed
    finally:
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)


async def _pause(changed: asyncio.Event, seconds: float) -> None:
    """Wait for a change, at most so long; several changes at a time are looked at together."""
    try:
        await asyncio.wait_for(changed.wait(), seconds)
    except TimeoutError:
        return
    await asyncio.sleep(_SHORTEST)
    changed.clear()


def _row(one: Ended) -> Record:
    request, container = one.outcome.request, one.outcome.container or {}
    return {
        "uuid": request["uuid"],
        "name": request["name"],
        "exit_code": one.code,
        "state": container.get("state"),
        "output": container.get("output"),
        "output_uuid": request["output_uuid"],
    }
