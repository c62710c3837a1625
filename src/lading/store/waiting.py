"""Waiting requests: for other requests, for a time, or for the resolution of their container.

`request_dependencies` maps a Committed request to the requests that it waits for; a row is deleted
when its wait ends.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Collection, Iterable

from lading.store.database import Transaction

TABLES = (
    "CREATE TABLE IF NOT EXISTS request_dependencies (dependent_uuid TEXT NOT NULL,"
    " dependency_uuid TEXT NOT NULL, PRIMARY KEY (dependency_uuid, dependent_uuid))",
    "CREATE INDEX IF NOT EXISTS request_dependencies_dependent_uuid"
    " ON request_dependencies (dependent_uuid)",
)
# States of containers that have not ended.
_LIVE = "('Queued', 'Locked', 'Running')"


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
    # Before its `start_after` a request gives its container no priority.
    started = await tx.fetch(
        "SELECT DISTINCT r.container_uuid FROM container_requests r"
        " JOIN containers c ON c.uuid = r.container_uuid"
        " WHERE r.state = 'Committed' AND r.start_after <= ? AND r.priority > 0 AND c.priority = 0"
        f" AND c.state IN {_LIVE}",
        (now,),
    )
    return [str(row[0]) for row in (*expired, *started)]


async def next_moment(tx: Transaction, now: str) -> str | None:
    """Time when the next Committed request expires or may start."""
    found = [
        (
            await tx.fetch(
                f"SELECT min({name}) FROM container_requests"
                f" WHERE state = 'Committed' AND {name} > ?",
                (now,),
            )
        )
        for name in ("expires_at", "start_after")
    ]
    return min((str(rows[0][0]) for rows in found if rows[0][0] is not None), default=None)


async def resolving(tx: Transaction, *, limit: int) -> list[str]:
    """Requests in resolution, oldest first."""
    rows = await tx.fetch(
        "SELECT uuid FROM container_requests"
        " WHERE container_uuid IS NULL AND state = 'Committed' AND resolving = 1"
        " ORDER BY created_at LIMIT ?",
        (limit,),
    )
    return [str(row[0]) for row in rows]


async def ahead(tx: Transaction, priority: int, created_at: str, *, most: int) -> int:
    """Number of waiting containers before this priority, at most `most`."""
    rows = await tx.fetch(
        # Counting stops at `most` rows.
        "SELECT count(*) FROM (SELECT 1 FROM containers WHERE state = 'Queued' AND priority > 0"
        " AND (priority > ? OR (priority = ? AND created_at < ?)) LIMIT ?) before",
        (priority, priority, created_at, most),
    )
    return int(rows[0][0] or 0)
