"""Intervals in which containers hold resources for requests (`Interval`), one row for each.

Resources are allocated while a container is Locked or Running. A row is closed and another opened
whenever the state, the priority of the request or the request's container changes. Closed rows are
never changed. Rows stay after their records are deleted.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lading.store.database import Deferred, Transaction

ALLOCATION_TABLES = (
    "CREATE TABLE IF NOT EXISTS allocations (container_uuid TEXT NOT NULL,"
    " request_uuid TEXT NOT NULL, user_uuid TEXT NOT NULL,"
    " priority BIGINT NOT NULL, state TEXT NOT NULL,"
    " started_at TEXT NOT NULL, ended_at TEXT)",
    "CREATE INDEX IF NOT EXISTS allocations_container_uuid"
    " ON allocations (container_uuid, started_at)",
)

# Columns of a new row; `ended_at` stays null while the interval is open.
_INTERVAL_COLUMNS: Final = "container_uuid, request_uuid, user_uuid, priority, state, started_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Resources held by one container for one request. `ended_at` is None for an open interval."""

    request_uuid: str
    user_uuid: str
    priority: int
    state: str
    started_at: str
    ended_at: str | None = None


async def begin_interval(tx: Transaction, container_uuid: str, interval: Interval) -> None:
    """Open an interval."""
    values = (
        container_uuid,
        interval.request_uuid,
        interval.user_uuid,
        interval.priority,
        interval.state,
        interval.started_at,
    )
    sql = f"INSERT INTO allocations ({_INTERVAL_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
    # Deferred: the outcome is not needed, and several changes share one statement in PostgreSQL.
    await tx.defer(
        Deferred(
            sql=sql, values=values, row=f"allocations {container_uuid} {interval.request_uuid}"
        )
    )


async def begin_intervals(tx: Transaction, container_uuid: str, state: str, now: str) -> None:
    """Open an interval for each Committed request of a container."""
    sql = (
        # The user who committed the request; its owner if that is not recorded.
        f"INSERT INTO allocations ({_INTERVAL_COLUMNS})"
        " SELECT container_uuid, uuid, coalesce(committed_by_uuid, owner_uuid),"
        " coalesce(priority, 0), CAST(? AS TEXT), CAST(? AS TEXT)"
        " FROM container_requests WHERE container_uuid = ? AND state = 'Committed'"
    )
    values, row = (state, now, container_uuid), f"allocations {container_uuid} *"
    await tx.defer(Deferred(sql=sql, values=values, row=row, reads="container_requests"))


async def end_intervals(
    tx: Transaction, container_uuid: str, now: str, *, request_uuid: str | None = None
) -> None:
    """Close the open intervals of a container, or of one request with it, at `now`, or at their
    start if later.
    """
    only, values = (
        ("", [now, now, container_uuid])
        if request_uuid is None
        else (" AND request_uuid = ?", [now, now, container_uuid, request_uuid])
    )
    sql = (
        # A clock that was set back must not give an interval of negative length.
        "UPDATE allocations SET ended_at = CASE WHEN started_at > ? THEN started_at ELSE ? END"
        f" WHERE container_uuid = ? AND ended_at IS NULL{only}"
    )
    await tx.defer(
        Deferred(sql=sql, values=values, row=f"allocations {container_uuid}", reads="allocations")
    )


async def intervals_of(tx: Transaction, container_uuid: str) -> list[Interval]:
    """All intervals of a container, earliest first."""
    rows = await tx.fetch(
        "SELECT request_uuid, user_uuid, priority, state, started_at, ended_at FROM allocations"
        " WHERE container_uuid = ? ORDER BY started_at, request_uuid",
        (container_uuid,),
    )
    return [
        Interval(
            request_uuid=str(row[0]),
            user_uuid=str(row[1]),
            priority=int(row[2] or 0),
            state=str(row[3]),
            started_at=str(row[4]),
            ended_at=None if row[5] is None else str(row[5]),
        )
        for row in rows
    ]
