"""Rows about requests that wait.

`request_dependencies` maps a Committed request to the requests that it waits for; a row is deleted
when its wait ends. Other requests wait for a time, or for the resolution of their container.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from lading.core.containers.priority import GroupMember
from lading.store.database import Dialect, Transaction

TABLES = (
    "CREATE TABLE IF NOT EXISTS request_dependencies (dependent_uuid TEXT NOT NULL,"
    " dependency_uuid TEXT NOT NULL, PRIMARY KEY (dependency_uuid, dependent_uuid))",
    "CREATE INDEX IF NOT EXISTS request_dependencies_dependent_uuid"
    " ON request_dependencies (dependent_uuid)",
)
# States of containers that have not ended.
_LIVE = "('Queued', 'Locked', 'Running')"
_WORK: Final = (
    "SELECT 1 FROM containers WHERE state IN ('Locked', 'Running') LIMIT 1",
    "SELECT 1 FROM container_requests WHERE state = 'Committed' AND priority > 0 LIMIT 1",
    "SELECT 1 FROM task_transfers WHERE phase IN ('fetching', 'delivering') LIMIT 1",
)
"""Work that is in progress or will be, one query for each kind."""
# An order by the bare column would make SQLite read all Committed requests along the index of state
# and time: 0.6 s for a million. Those without a container are few and have an index.
RESOLVING: Final = (
    "SELECT uuid FROM container_requests"
    " WHERE container_uuid IS NULL AND state = 'Committed' AND resolving = 1"
    " ORDER BY created_at || '' LIMIT ?"
)


async def watch(tx: Transaction, dependent_uuid: str, dependency_uuids: Iterable[str]) -> None:
    """Store the dependencies of a request."""
    for uuid in dependency_uuids:
        await tx.execute(
            "INSERT INTO request_dependencies (dependent_uuid, dependency_uuid) VALUES (?, ?)"
            " ON CONFLICT DO NOTHING",
            (dependent_uuid, uuid),
        )


async def unwatch(tx: Transaction, dependent_uuid: str) -> None:
    """Delete the dependencies of a request."""
    await tx.execute("DELETE FROM request_dependencies WHERE dependent_uuid = ?", (dependent_uuid,))


async def watching(tx: Transaction, request_uuids: Collection[str]) -> set[str]:
    """The requests among `request_uuids` that wait for others."""
    if not request_uuids:
        return set()
    marks = ", ".join("?" for _ in request_uuids)
    rows = await tx.fetch(
        "SELECT DISTINCT dependent_uuid FROM request_dependencies"
        f" WHERE dependent_uuid IN ({marks})",
        tuple(request_uuids),
    )
    return {str(row[0]) for row in rows}


async def dependents(tx: Transaction, dependency_uuid: str) -> list[str]:
    """The requests that wait for this one."""
    rows = await tx.fetch(
        "SELECT dependent_uuid FROM request_dependencies WHERE dependency_uuid = ?"
        " ORDER BY dependent_uuid",
        (dependency_uuid,),
    )
    return [str(row[0]) for row in rows]


async def waits_on(tx: Transaction, dependent_uuid: str) -> bool:
    """Whether a request that this one depends on has not ended."""
    return bool(
        await tx.fetch(
            "SELECT 1 FROM request_dependencies d"
            " JOIN container_requests r ON r.uuid = d.dependency_uuid"
            " WHERE d.dependent_uuid = ? AND r.state <> 'Final' LIMIT 1",
            (dependent_uuid,),
        )
    )


async def outdated(tx: Transaction, now: str) -> list[str]:
    """Containers with a request that expired or became ready to start, so that their priority may
    have changed.
    """
    # A request past its `expires_at` no longer counts for the priority.
    expired = await tx.fetch(
        "SELECT DISTINCT r.container_uuid FROM container_requests r"
        " JOIN containers c ON c.uuid = r.container_uuid"
        " WHERE r.state = 'Committed' AND r.expires_at <= ? AND c.priority > 0"
        f" AND c.state IN {_LIVE}",
        (now,),
    )
    # Before its `start_after` or `retry_after` a request gives its container no priority.
    started = [
        row
        for name in ("start_after", "retry_after")
        for row in await tx.fetch(
            "SELECT DISTINCT r.container_uuid FROM container_requests r"
            " JOIN containers c ON c.uuid = r.container_uuid"
            f" WHERE r.state = 'Committed' AND r.{name} <= ? AND r.priority > 0 AND c.priority = 0"
            f" AND c.state IN {_LIVE}",
            (now,),
        )
    ]
    return [str(row[0]) for row in (*expired, *started)]


async def next_moment(tx: Transaction, now: str) -> str | None:
    """Time when the next Committed request expires or may start."""
    rows_by_column = [
        (
            await tx.fetch(
                f"SELECT min({name}) FROM container_requests"
                f" WHERE state = 'Committed' AND {name} > ?",
                (now,),
            )
        )
        for name in ("expires_at", "start_after", "retry_after")
    ]
    return min((str(rows[0][0]) for rows in rows_by_column if rows[0][0] is not None), default=None)


async def has_work(tx: Transaction) -> bool:
    """Whether a container runs, a request waits that is not on hold, or a file of a task is
    transferred.
    """
    for query in _WORK:
        if await tx.fetch(query):
            return True
    return False


async def group_members(
    tx: Transaction, user_uuid: str, group: str, *, now: str
) -> list[tuple[GroupMember, int]]:
    """The requests of a group whose containers run, or could run but for their turn; each with the
    priority of its container.
    """
    rows = await tx.fetch(
        "SELECT r.uuid, r.container_uuid, r.priority, r.created_at, r.max_parallel, c.state,"
        " c.priority FROM container_requests r JOIN containers c ON c.uuid = r.container_uuid"
        " WHERE r.parallel_group = ? AND r.state = 'Committed' AND r.committed_by_uuid = ?"
        " AND r.max_parallel > 0 AND (c.state IN ('Locked', 'Running') OR (c.state = 'Queued'"
        " AND r.priority > 0 AND (r.expires_at IS NULL OR r.expires_at > ?)"
        " AND (r.start_after IS NULL OR r.start_after <= ?)"
        " AND (r.retry_after IS NULL OR r.retry_after <= ?)"
        " AND NOT EXISTS (SELECT 1 FROM request_dependencies d WHERE d.dependent_uuid = r.uuid)"
        " AND NOT EXISTS (SELECT 1 FROM group_standing s"
        " WHERE s.uuid = r.owner_uuid AND s.trash_at <= ?)))",
        (group, user_uuid, *[now] * 4),
    )
    return [
        (
            GroupMember(
                uuid=str(row[0]),
                container_uuid=str(row[1]),
                priority=int(row[2] or 0),
                created_at=str(row[3]),
                most=int(row[4] or 0),
                holds=row[5] != "Queued",
            ),
            int(row[6] or 0),
        )
        for row in rows
    ]


async def resolving(tx: Transaction, *, limit: int) -> list[str]:
    """Requests in resolution, oldest first."""
    return [str(row[0]) for row in await tx.fetch(RESOLVING, (limit,))]


async def ahead(
    tx: Transaction, dialect: Dialect, priority: int, created_at: str, *, most: int
) -> int:
    """Count the waiting containers that come before one of this priority (1 or more). The count
    stops at `most`.
    """
    # Two walks along the index: the planner of PostgreSQL reads all waiting containers for one
    # condition with OR. The order makes it walk, as a walk is what it takes for the cheapest then.
    order = dialect.order("priority", descending=True)
    rows = await tx.fetch(
        # Counting stops at `most` rows.
        "SELECT count(*) FROM (SELECT 1 FROM (SELECT 1 FROM containers WHERE state = 'Queued'"
        f" AND priority > ? ORDER BY {order} LIMIT ?) above"
        " UNION ALL SELECT 1 FROM (SELECT 1 FROM containers WHERE state = 'Queued'"
        " AND priority = ? AND created_at < ? LIMIT ?) beside LIMIT ?) before",
        (priority, most, priority, created_at, most, most),
    )
    return int(rows[0][0] or 0)
