"""Ends of runs that were told to webhooks, one row a run, and the runs whose ends are asked for."""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lading.core.runs.run_ends import ToldEnd
from lading.store.database import Transaction

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS run_ends (run_uuid TEXT PRIMARY KEY, attempt INTEGER NOT NULL,"
    " number INTEGER NOT NULL, state TEXT NOT NULL, finished INTEGER NOT NULL)",
)
_TOGETHER: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRun:
    """A project whose end a webhook asks for: the time of its first webhook, and of the last change
    of the project and of its requests, "" without one.
    """

    uuid: str
    asked_at: str
    changed_at: str
    steps_changed_at: str


async def watched(tx: Transaction) -> list[WatchedRun]:
    """The projects that active webhooks name, and that ask for ends of runs. An index has the last
    change of the requests.
    """
    asked = await tx.fetch(
        "SELECT project_uuid, MIN(created_at) FROM webhooks WHERE state = 'Active'"
        " AND project_uuid IS NOT NULL AND CAST(event_types AS TEXT) LIKE '%run_end%'"
        " GROUP BY project_uuid"
    )
    since = {str(uuid): str(created_at) for uuid, created_at in asked}
    runs: list[WatchedRun] = []
    uuids = sorted(since)
    for start in range(0, len(uuids), _TOGETHER):
        batch: Sequence[str] = uuids[start : start + _TOGETHER]
        rows = await tx.fetch(
            "SELECT g.uuid, g.modified_at, (SELECT MAX(r.modified_at) FROM container_requests r"
            " WHERE r.owner_uuid = g.uuid) FROM groups g WHERE g.is_trashed = 0"
            f" AND g.uuid IN ({', '.join('?' for _ in batch)})",
            batch,
        )
        runs += [
            WatchedRun(
                uuid=str(uuid),
                asked_at=since[str(uuid)],
                changed_at=str(changed_at),
                steps_changed_at=str(steps_changed_at or ""),
            )
            for uuid, changed_at, steps_changed_at in rows
        ]
    return runs


async def find(tx: Transaction, uuid: str) -> ToldEnd | None:
    """The last end of a run that was told; None without one."""
    rows = await tx.fetch(
        "SELECT attempt, number, state, finished FROM run_ends WHERE run_uuid = ?", (uuid,)
    )
    if not rows:
        return None
    attempt, number, state, finished = rows[0]
    return ToldEnd(
        attempt=int(attempt or 0),
        number=int(number or 0),
        state=str(state),
        finished=int(finished or 0),
    )


async def keep(tx: Transaction, uuid: str, end: ToldEnd) -> None:
    """Store the end of a run that is told with this transaction."""
    await tx.execute(
        "INSERT INTO run_ends (run_uuid, attempt, number, state, finished) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (run_uuid) DO UPDATE SET attempt = excluded.attempt,"
        " number = excluded.number, state = excluded.state, finished = excluded.finished",
        (uuid, end.attempt, end.number, end.state, end.finished),
    )


async def sweep(tx: Transaction) -> int:
    """Delete the ends of runs that were deleted; how many."""
    return await tx.execute(
        "DELETE FROM run_ends WHERE NOT EXISTS (SELECT 1 FROM groups g WHERE g.uuid = run_uuid)"
    )
