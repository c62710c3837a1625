"""Rows about waiting: requests that wait, statuses of waiting containers, leases of dispatchers.

- `request_dependencies` maps a Committed request to the requests that it waits for; a row is
  deleted when its wait ends. Other requests wait for a time, or for the resolution of their
  container.
- Statuses are reported by dispatchers and shared by all server processes.
- Reports about machines, and orders for them, are shared in the same way.
- A lease names the process that works with a dispatcher's token, and the time of its last report
  (docs/spec/dispatch, section Leases).
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from lading.core.containers.priority import GroupMember
from lading.core.scheduling.leases import Lease
from lading.core.scheduling.wait_reasons import WaitReason
from lading.store.database import Dialect, Transaction, Value

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
    found = [
        (
            await tx.fetch(
                f"SELECT min({name}) FROM container_requests"
                f" WHERE state = 'Committed' AND {name} > ?",
                (now,),
            )
        )
        for name in ("expires_at", "start_after", "retry_after")
    ]
    return min((str(rows[0][0]) for rows in found if rows[0][0] is not None), default=None)


_WORK: Final = (
    "SELECT 1 FROM containers WHERE state IN ('Locked', 'Running') LIMIT 1",
    "SELECT 1 FROM container_requests WHERE state = 'Committed' AND priority > 0 LIMIT 1",
    "SELECT 1 FROM task_transfers WHERE phase IN ('fetching', 'delivering') LIMIT 1",
)
"""Work that is in progress or will be, one query for each kind."""


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


# An order by the bare column would make SQLite read all Committed requests along the index of state
# and time: 0.6 s for a million. Those without a container are few and have an index.
RESOLVING: Final = (
    "SELECT uuid FROM container_requests"
    " WHERE container_uuid IS NULL AND state = 'Committed' AND resolving = 1"
    " ORDER BY created_at || '' LIMIT ?"
)


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
_Row = TypeVar("_Row")


async def count_statuses(tx: Transaction, *, since: str) -> tuple[dict[str, int], int]:
    """Number of statuses by reason, and of dispatchers, from those that reported `since` then."""
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
    tx: Transaction, dispatcher_uuid: str, said: Mapping[str, WaitReason]
) -> None:
    """Store the statuses that a dispatcher reports, by container."""
    rows = [(uuid, dispatcher_uuid, one.reason, one.sentence) for uuid, one in said.items()]
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
    """Delete what all dispatchers have said about why these containers wait."""
    condition = dialect.among.format("container_uuid")
    uuids = msgspec.json.encode(list(container_uuids)).decode()
    await tx.execute(f"DELETE FROM scheduling_statuses WHERE {condition}", (uuids,))


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


async def lease_of(tx: Transaction, token_uuid: str) -> Lease | None:
    """The lease of a token, also one that has expired."""
    rows = await tx.fetch(
        "SELECT l.holder, l.renewed_at, i.id FROM dispatcher_leases l"
        " LEFT JOIN lease_ids i ON i.token_uuid = l.token_uuid WHERE l.token_uuid = ?",
        (token_uuid,),
    )
    return next((Lease(str(one[0]), str(one[1]), str(one[2] or "")) for one in rows), None)


async def put_lease(tx: Transaction, token_uuid: str, lease: Lease) -> None:
    """Store the lease of a token, in place of an earlier one."""
    await tx.execute(
        "INSERT INTO dispatcher_leases (token_uuid, holder, renewed_at) VALUES (?, ?, ?)"
        " ON CONFLICT (token_uuid) DO UPDATE"
        " SET holder = excluded.holder, renewed_at = excluded.renewed_at",
        (token_uuid, lease.holder, lease.renewed_at),
    )
    await tx.execute(
        "INSERT INTO lease_ids (token_uuid, id) VALUES (?, ?)"
        " ON CONFLICT (token_uuid) DO UPDATE SET id = excluded.id",
        (token_uuid, lease.id),
    )


async def release_lease(tx: Transaction, token_uuid: str) -> None:
    """Release the lease of a token."""
    for table in ("dispatcher_leases", "lease_ids"):
        await tx.execute(f"DELETE FROM {table} WHERE token_uuid = ?", (token_uuid,))
