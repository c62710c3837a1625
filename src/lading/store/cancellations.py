"""Cancellations of many requests: what is to be cancelled, and how far each of them is.

A row of `cancellations` is made by one call and worked off by servers, step by step, in the same
transactions in which they cancel the requests: so it goes on after a restart, from its `position`.
The server that works on one holds it for some seconds and renews that with each step.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from lading.core.records.schema import JSON
from lading.store.database import Row, Transaction

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS cancellations (id TEXT PRIMARY KEY, user_uuid TEXT NOT NULL,"
    " filters TEXT NOT NULL, created_at TEXT NOT NULL, total BIGINT, cancelled BIGINT NOT NULL,"
    " refused BIGINT NOT NULL, position_at TEXT NOT NULL, position_uuid TEXT NOT NULL,"
    " finished_at TEXT, error TEXT NOT NULL, holder TEXT NOT NULL, held_until TEXT NOT NULL)",
)
_COLUMNS: Final = (
    "id, user_uuid, filters, created_at, total, cancelled, refused, position_at, position_uuid,"
    " finished_at, error, holder, held_until"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """A cancellation of the requests that are Committed, meet `filters` and come before the
    position: (created_at, uuid), exclusive. `total` is None until they are counted; `refused` may
    be read and not written by the user.
    """

    id: str
    user_uuid: str
    filters: JSON
    created_at: str
    position: tuple[str, str]
    total: int | None = None
    cancelled: int = 0
    refused: int = 0
    finished_at: str | None = None
    error: str = ""
    holder: str = ""
    held_until: str = ""

    def is_held(self, holder: str, now: str) -> bool:
        """Whether another server works on it."""
        return self.holder not in ("", holder) and self.held_until > now


async def put(tx: Transaction, one: Cancellation) -> None:
    """Store a cancellation, in place of its earlier state."""
    assignments = ", ".join(
        f"{name} = excluded.{name}" for name in _COLUMNS.split(", ") if name != "id"
    )
    await tx.execute(
        f"INSERT INTO cancellations ({_COLUMNS}) VALUES ({', '.join('?' * 13)})"
        f" ON CONFLICT (id) DO UPDATE SET {assignments}",
        (
            one.id,
            one.user_uuid,
            msgspec.json.encode(one.filters).decode(),
            one.created_at,
            one.total,
            one.cancelled,
            one.refused,
            *one.position,
            one.finished_at,
            one.error,
            one.holder,
            one.held_until,
        ),
    )


async def get(tx: Transaction, id: str) -> Cancellation | None:
    """A cancellation."""
    rows = await tx.fetch(f"SELECT {_COLUMNS} FROM cancellations WHERE id = ?", (id,))
    return _cancellation(rows[0]) if rows else None


async def unfinished(tx: Transaction) -> list[Cancellation]:
    """The cancellations that have not ended, oldest first."""
    rows = await tx.fetch(
        f"SELECT {_COLUMNS} FROM cancellations WHERE finished_at IS NULL ORDER BY created_at, id"
    )
    return [_cancellation(row) for row in rows]


async def forget(tx: Transaction, *, before: str) -> None:
    """Delete cancellations that ended before a time."""
    await tx.execute("DELETE FROM cancellations WHERE finished_at < ?", (before,))


def _cancellation(row: Row) -> Cancellation:
    return Cancellation(
        id=str(row[0]),
        user_uuid=str(row[1]),
        filters=msgspec.json.decode(str(row[2])),
        created_at=str(row[3]),
        total=None if row[4] is None else int(row[4]),
        cancelled=int(row[5] or 0),
        refused=int(row[6] or 0),
        position=(str(row[7]), str(row[8])),
        finished_at=None if row[9] is None else str(row[9]),
        error=str(row[10]),
        holder=str(row[11]),
        held_until=str(row[12]),
    )


async def shared_containers(tx: Transaction, container_uuids: Sequence[str]) -> set[str]:
    """Those of these containers that several Committed requests want."""
    return await _found(
        tx,
        "SELECT container_uuid FROM container_requests WHERE state = 'Committed'"
        " AND container_uuid IN ({}) GROUP BY container_uuid HAVING count(*) > 1",
        container_uuids,
    )


async def with_dependents(tx: Transaction, uuids: Sequence[str]) -> set[str]:
    """Those of these requests that others wait for."""
    return await _found(
        tx,
        "SELECT dependency_uuid FROM request_dependencies WHERE dependency_uuid IN ({})",
        uuids,
    )


async def with_charges(tx: Transaction, container_uuids: Sequence[str]) -> set[str]:
    """Those of these containers that quotas were charged for, or hold back."""
    found = set[str]()
    for table in ("quota_charges", "quota_waits"):
        sql = f"SELECT container_uuid FROM {table} WHERE container_uuid IN ({{}})"
        found |= await _found(tx, sql, container_uuids)
    return found


async def unwatch_all(tx: Transaction, uuids: Sequence[str]) -> None:
    """Delete the dependencies of requests."""
    if uuids:
        marks = ", ".join("?" * len(uuids))
        await tx.execute(
            f"DELETE FROM request_dependencies WHERE dependent_uuid IN ({marks})", uuids
        )


async def _found(tx: Transaction, sql: str, values: Sequence[str]) -> set[str]:
    """The first values of a query with a list of `values`."""
    if not values:
        return set()
    rows = await tx.fetch(sql.format(", ".join("?" * len(values))), values)
    return {str(row[0]) for row in rows}
