"""Rows of requests that wait for a quota."""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from lading.core.policy.quotas import Limit
from lading.store.database import Row, Transaction
from lading.store.quotas import parts

WORKFLOWS: Final = "/workflows"
"""Follows a subject in the rows of requests that wait for the half of its quota that is for
workflows: a queue of their own."""
_WAIT: Final = "request_uuid, container_uuid, subject_uuid, reason, rank, again_at"


@dataclass(frozen=True, slots=True)
class QuotaWait:
    """A request that waits for a quota; `queue` is the subject, with WORKFLOWS after it for the
    half of the quota that is for workflows.
    """

    request_uuid: str
    container_uuid: str
    queue: str
    reason: Limit
    rank: int
    again_at: str | None = None

    @property
    def subject_uuid(self) -> str:
        """The subject of the quota."""
        return self.queue.removesuffix(WORKFLOWS)


async def wait(tx: Transaction, quota_wait: QuotaWait) -> None:
    """Store that a request waits, in place of an earlier row."""
    await tx.execute(
        "INSERT INTO quota_waits (request_uuid, container_uuid, subject_uuid, reason, rank,"
        " again_at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (request_uuid) DO UPDATE SET"
        " container_uuid = excluded.container_uuid, subject_uuid = excluded.subject_uuid,"
        " reason = excluded.reason, rank = excluded.rank, again_at = excluded.again_at",
        (
            quota_wait.request_uuid,
            quota_wait.container_uuid,
            quota_wait.queue,
            str(quota_wait.reason),
            quota_wait.rank,
            quota_wait.again_at,
        ),
    )


async def first_waiting(tx: Transaction, queue: str) -> QuotaWait | None:
    """The request of the highest rank in a queue."""
    rows = await tx.fetch(
        f"SELECT {_WAIT} FROM quota_waits WHERE subject_uuid = ?"
        " ORDER BY rank DESC, request_uuid LIMIT 1",
        (queue,),
    )
    return _wait(rows[0]) if rows else None


async def waits_of(tx: Transaction, requests: Collection[str]) -> dict[str, QuotaWait]:
    """The requests among these that wait for a quota."""
    return await _waits(tx, "request_uuid", requests)


async def waits_for(tx: Transaction, containers: Collection[str]) -> dict[str, QuotaWait]:
    """The requests for these containers that wait for a quota."""
    return await _waits(tx, "container_uuid", containers)


async def _waits(tx: Transaction, name: str, uuids: Collection[str]) -> dict[str, QuotaWait]:
    waits: dict[str, QuotaWait] = {}
    for chunk, marks in parts(sorted(uuids)):
        rows = await tx.fetch(f"SELECT {_WAIT} FROM quota_waits WHERE {name} IN ({marks})", chunk)
        waits |= {str(row[0]): _wait(row) for row in rows}
    return waits


async def unwait(tx: Transaction, requests: Collection[str]) -> None:
    """Delete the rows of requests."""
    for chunk, marks in parts(sorted(requests)):
        await tx.execute(f"DELETE FROM quota_waits WHERE request_uuid IN ({marks})", chunk)


async def unwait_container(tx: Transaction, container_uuid: str) -> list[str]:
    """Delete the rows of requests for a container; the queues in which they waited."""
    rows = await tx.fetch(
        "DELETE FROM quota_waits WHERE container_uuid = ? RETURNING subject_uuid",
        (container_uuid,),
    )
    return [str(row[0]) for row in rows]


async def due(tx: Transaction, now: str) -> list[str]:
    """Queues with a request that is to be looked at again by now."""
    rows = await tx.fetch(
        "SELECT DISTINCT subject_uuid FROM quota_waits WHERE again_at <= ?", (now,)
    )
    return [str(row[0]) for row in rows]


async def clear_due(tx: Transaction, queue: str, now: str) -> None:
    """Forget the times until now at which requests of a queue are to be looked at again."""
    await tx.execute(
        "UPDATE quota_waits SET again_at = NULL WHERE subject_uuid = ? AND again_at <= ?",
        (queue, now),
    )


async def next_due(tx: Transaction) -> str | None:
    """The time at which the next request is to be looked at again."""
    rows = await tx.fetch("SELECT min(again_at) FROM quota_waits WHERE again_at IS NOT NULL")
    return None if rows[0][0] is None else str(rows[0][0])


async def waiting_at(tx: Transaction, subject: str, *, most: int) -> list[QuotaWait]:
    """The first requests that wait for a subject, in either queue."""
    rows = await tx.fetch(
        f"SELECT {_WAIT} FROM quota_waits WHERE subject_uuid IN (?, ?)"
        " ORDER BY rank DESC, request_uuid LIMIT ?",
        (subject, subject + WORKFLOWS, most),
    )
    return [_wait(row) for row in rows]


def _wait(row: Row) -> QuotaWait:
    return QuotaWait(
        str(row[0]),
        str(row[1]),
        str(row[2]),
        Limit(str(row[3])),
        int(row[4] or 0),
        None if row[5] is None else str(row[5]),
    )
