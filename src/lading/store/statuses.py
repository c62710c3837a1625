"""Statuses of waiting containers and reports of machines, as dispatchers send them.

- Statuses are reported by dispatchers and shared by all server processes.
- Reports about machines, and orders for them, are shared in the same way.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from lading.core.scheduling.wait_reasons import WaitReason
from lading.store.database import Deferred, Dialect, Transaction, Value

_Row = TypeVar("_Row")
STATUS_TABLES = (
    "CREATE TABLE IF NOT EXISTS scheduling_statuses (container_uuid TEXT NOT NULL,"
    " dispatcher_uuid TEXT NOT NULL, reason TEXT NOT NULL, sentence TEXT NOT NULL,"
    " PRIMARY KEY (container_uuid, dispatcher_uuid))",
    "CREATE TABLE IF NOT EXISTS dispatchers (uuid TEXT PRIMARY KEY, reported_at TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS dispatcher_leases (token_uuid TEXT PRIMARY KEY,"
    " holder TEXT NOT NULL, renewed_at TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS lease_ids (token_uuid TEXT PRIMARY KEY, id TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS machine_reports (dispatcher_uuid TEXT PRIMARY KEY,"
    " reported_at TEXT NOT NULL, document TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS machine_orders (dispatcher_uuid TEXT NOT NULL,"
    " machine TEXT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (dispatcher_uuid, machine))",
)
# Rows per statement.
_BATCH = 100


async def count_statuses(tx: Transaction, *, since: str) -> tuple[dict[str, int], int]:
    """Number of statuses by reason, and of dispatchers that reported at `since` or later."""
    rows = await tx.fetch(
        "SELECT s.reason, count(*) FROM scheduling_statuses s"
        " JOIN dispatchers d ON d.uuid = s.dispatcher_uuid WHERE d.reported_at >= ?"
        " GROUP BY s.reason",
        (since,),
    )
    active = await tx.fetch("SELECT count(*) FROM dispatchers WHERE reported_at >= ?", (since,))
    return {str(row[0]): int(row[1] or 0) for row in rows}, int(active[0][0] or 0)


async def note_report(tx: Transaction, dispatcher_uuid: str, now: str) -> None:
    """Store the time of a dispatcher's report."""
    await tx.execute(
        "INSERT INTO dispatchers (uuid, reported_at) VALUES (?, ?)"
        " ON CONFLICT (uuid) DO UPDATE SET reported_at = excluded.reported_at",
        (dispatcher_uuid, now),
    )


async def put_statuses(
    tx: Transaction, dispatcher_uuid: str, statuses: Mapping[str, WaitReason]
) -> None:
    """Store the statuses that a dispatcher reports, by container."""
    rows = [
        (uuid, dispatcher_uuid, status.reason, status.sentence) for uuid, status in statuses.items()
    ]
    for batch in _batches(rows):
        values: list[Value] = [value for row in batch for value in row]
        marks = ", ".join("(?, ?, ?, ?)" for _ in batch)
        await tx.execute(
            "INSERT INTO scheduling_statuses (container_uuid, dispatcher_uuid, reason, sentence)"
            f" VALUES {marks}"
            " ON CONFLICT (container_uuid, dispatcher_uuid)"
            " DO UPDATE SET reason = excluded.reason, sentence = excluded.sentence",
            values,
        )


async def take_back_statuses(
    tx: Transaction, dispatcher_uuid: str, container_uuids: Iterable[str]
) -> None:
    """Delete the statuses of a dispatcher for these containers."""
    for batch in _batches(list(container_uuids)):
        marks = ", ".join("?" for _ in batch)
        await tx.execute(
            "DELETE FROM scheduling_statuses"
            f" WHERE dispatcher_uuid = ? AND container_uuid IN ({marks})",
            (dispatcher_uuid, *batch),
        )


async def forget_statuses(
    tx: Transaction, dialect: Dialect, container_uuids: Collection[str]
) -> None:
    """Delete what all dispatchers have said about why these containers wait, deferred."""
    condition = dialect.among.format("container_uuid")
    uuids = msgspec.json.encode(list(container_uuids)).decode()
    await tx.defer(
        Deferred(
            sql=f"DELETE FROM scheduling_statuses WHERE {condition}",
            values=(uuids,),
            row=f"scheduling_statuses {uuids}",
            reads="scheduling_statuses",
        )
    )


async def statuses_of(tx: Transaction, container_uuid: str, *, since: str) -> list[WaitReason]:
    """Statuses of a container from dispatchers that have reported since a time."""
    rows = await tx.fetch(
        "SELECT s.reason, s.sentence FROM scheduling_statuses s"
        # A silent dispatcher's statuses are outdated, so they are not shown.
        " JOIN dispatchers d ON d.uuid = s.dispatcher_uuid"
        " WHERE s.container_uuid = ? AND d.reported_at >= ? ORDER BY s.dispatcher_uuid",
        (container_uuid, since),
    )
    return [WaitReason(str(reason), str(sentence)) for reason, sentence in rows]


async def last_report(tx: Transaction) -> str | None:
    """Time of the latest report from any dispatcher."""
    found = (await tx.fetch("SELECT max(reported_at) FROM dispatchers"))[0][0]
    return None if found is None else str(found)


async def put_machines(
    tx: Transaction, dispatcher_uuid: str, document: str | None, *, now: str
) -> bool:
    """Store a dispatcher's report about machines; None leaves the last one. False when there is
    none to leave.
    """
    # Nothing changed: only the time is written, not a document of thousands of machines.
    if document is None:
        rows = await tx.fetch(
            "UPDATE machine_reports SET reported_at = ? WHERE dispatcher_uuid = ?"
            " RETURNING dispatcher_uuid",
            (now, dispatcher_uuid),
        )
        return bool(rows)
    await tx.execute(
        "INSERT INTO machine_reports (dispatcher_uuid, reported_at, document) VALUES (?, ?, ?)"
        " ON CONFLICT (dispatcher_uuid) DO UPDATE"
        " SET reported_at = excluded.reported_at, document = excluded.document",
        (dispatcher_uuid, now, document),
    )
    return True


async def machines(tx: Transaction, *, since: str) -> list[tuple[str, str, str]]:
    """Dispatcher, time and text of each report about machines since a time."""
    rows = await tx.fetch(
        "SELECT dispatcher_uuid, reported_at, document FROM machine_reports"
        " WHERE reported_at >= ? ORDER BY dispatcher_uuid",
        (since,),
    )
    return [(str(row[0]), str(row[1]), str(row[2])) for row in rows]


async def put_order(tx: Transaction, dispatcher_uuid: str, machine: str, document: str) -> None:
    """Store an order for a machine, in place of an earlier one."""
    await tx.execute(
        "INSERT INTO machine_orders (dispatcher_uuid, machine, document) VALUES (?, ?, ?)"
        " ON CONFLICT (dispatcher_uuid, machine) DO UPDATE SET document = excluded.document",
        (dispatcher_uuid, machine, document),
    )


async def take_orders(tx: Transaction, dispatcher_uuid: str) -> list[str]:
    """Remove the orders for the machines of a dispatcher, and return them."""
    rows = await tx.fetch(
        # One statement, so that two servers never give the same order twice.
        "DELETE FROM machine_orders WHERE dispatcher_uuid = ? RETURNING document",
        (dispatcher_uuid,),
    )
    return [str(row[0]) for row in rows]


def _batches(rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    return (rows[at : at + _BATCH] for at in range(0, len(rows), _BATCH))
