"""`lading wait`: wait for many requests, and say how they ended.

The exit code is 0 if all of them succeeded, else the exit code of the first that failed.
"""

from __future__ import annotations

import asyncio
import fnmatch
import re
import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import click

from lading.cli import display
from lading.cli.options import DURATION
from lading.cli.references import find_request
from lading.cli.session import CliSession, with_session
from lading.client.api import ApiClient, Record
from lading.client.outcomes import RequestOutcome, wait_for_all
from lading.core.errors import NotFound

_TIMED_OUT = 124
"""As timeout(1) of GNU coreutils."""


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

    async def action(session: CliSession) -> list[RequestOutcome]:
        found = await _find(session, requests, name, project)
        async with asyncio.timeout(timeout or None):
            return await wait_and_show(session.api, found, is_quiet=as_json)

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


async def wait_and_show(
    api: ApiClient, uuids: Sequence[str], *, is_quiet: bool
) -> list[RequestOutcome]:
    """Wait until all requests are Final, with a bar; as `wait_for_all`."""
    with display.progress("requests", is_quiet=is_quiet, is_bytes=False) as show:
        return await wait_for_all(api, uuids, show)


def show_end(ended: Sequence[RequestOutcome]) -> None:
    """Print how many have succeeded, and those that failed, one a line."""
    bad = [one for one in ended if one.exit_code]
    for one in bad:
        click.echo(_line(one))
    display.note(f"{len(ended) - len(bad)} of {len(ended)} succeeded")


def _line(one: RequestOutcome) -> str:
    name = display.plain(one.request["name"] or "")
    return f"failed  {one.request['uuid']}  {name + ': ' if name else ''}{one.fault}"


def worst(ended: Sequence[RequestOutcome]) -> int:
    """The exit code for all of them: of the first that failed."""
    return next((one.exit_code for one in ended if one.exit_code), 0)


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


def _row(one: RequestOutcome) -> Record:
    request, container = one.request, one.container or {}
    return {
        "uuid": request["uuid"],
        "name": request["name"],
        "exit_code": one.exit_code,
        "state": container.get("state"),
        "output": container.get("output"),
        "output_uuid": request["output_uuid"],
    }
