"""`lading request cancel` of very many requests: the server does the work, the command shows it.

The server selects by filters, so this is for selections that filters express; others are found by
the command and cancelled with a call for each (`bulk_actions`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from lading.cli import display
from lading.cli.running import selection
from lading.cli.running.selection import RequestSelection
from lading.core.errors import Unavailable

if TYPE_CHECKING:
    from lading.cli.session import CliSession
    from lading.client.api import Record

# Seconds between two looks at the progress.
_PAUSE: Final = 0.5
_COMMITTED: Final = ["state", "=", "Committed"]


async def find(session: CliSession, criteria: RequestSelection) -> tuple[list[Any], int] | None:
    """The filters of the Committed requests that match, and their number; None if filters cannot
    express the criteria.
    """
    plain = _without_names(criteria)
    patterns = [_like(name) for name in criteria.names]
    if not plain.is_counted or len(patterns) > 1 or None in patterns:
        return None
    filters = await selection.conditions(session, plain, datetime.now(UTC))
    filters += [["name", "like", pattern] for pattern in patterns]
    if _COMMITTED not in filters:
        filters.append(_COMMITTED)
    params = {"filters": filters, "limit": 0, "count": "exact"}
    answer: Record = await session.api.request("GET", "container_requests", params=params)
    return filters, int(answer["items_available"])


async def run(session: CliSession, filters: list[Any]) -> Record:
    """Have the server cancel them, and wait until it has; shows a bar, or with `--json` prints a
    line for each look at the progress. Raises Unavailable with the fault that ended it.

    The server goes on when the command is interrupted.
    """
    # Imported here: help and completion need none.
    import asyncio

    import msgspec

    api = session.api
    job: Record = await api.action(
        "container_requests", None, "cancel_matching", body={"filters": filters}
    )
    with display.progress("cancelled", is_bytes=False) as show:
        while True:
            if display.is_json_command():
                click.echo(msgspec.json.encode(job))
            show(job["cancelled"] + job["refused"], job["total"] or 0)
            if job["finished_at"]:
                break
            await asyncio.sleep(_PAUSE)
            job = await api.action(
                "container_requests", None, "cancellation", method="GET", id=job["id"]
            )
    if job["error"]:
        raise Unavailable(f"cancelled {job['cancelled']} requests, then: {job['error']}")
    return job


def _without_names(criteria: RequestSelection) -> RequestSelection:
    return RequestSelection(
        project=criteria.project,
        user=criteria.user,
        properties=criteria.properties,
        state=criteria.state,
        since=criteria.since,
        failed=criteria.failed,
    )


def _like(pattern: str) -> str | None:
    """The SQL pattern of a pattern as for the shell; None where there is none: it has a set of
    characters, or admits requests without a name.
    """
    if "[" in pattern or not pattern.strip("*"):
        return None
    return re.sub(r"[\\%_]", r"\\\g<0>", pattern).replace("*", "%").replace("?", "_")
