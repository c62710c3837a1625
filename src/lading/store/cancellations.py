"""Cancellations of many requests: the conditions of the requests, and the progress.

One call makes a row of `cancellations`. Servers work it off step by step, in the transactions in
which they cancel the requests: after a restart they go on from its `position`.
The server that works on one holds it for some seconds and renews that with each step.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from lading.core.quantities import later
from lading.core.records.expressions import Expression, SortKey
from lading.core.records.schema import JSON, Record
from lading.store import quotas
from lading.store.database import Deferred, Dialect, Row, Transaction, Value
from lading.store.leases import WorkLease
from lading.store.query import ConditionWriter, order_by

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS cancellations (id TEXT PRIMARY KEY, user_uuid TEXT NOT NULL,"
    " filters TEXT NOT NULL, created_at TEXT NOT NULL, total BIGINT, cancelled BIGINT NOT NULL,"
    " refused BIGINT NOT NULL, position_at TEXT NOT NULL, position_uuid TEXT NOT NULL,"
    " finished_at TEXT, error TEXT NOT NULL, holder TEXT NOT NULL, held_until TEXT NOT NULL)",
    # Each lock looks for one.
    "CREATE INDEX IF NOT EXISTS cancellations_unfinished ON cancellations (created_at, id)"
    " WHERE finished_at IS NULL",
)
IN_USE: Final = "cancellations"
"""Among the features in use while a cancellation is not finished."""
_IN_USE: Final = (
    f"{quotas.KINDS} UNION ALL SELECT '{IN_USE}'"
    " WHERE EXISTS (SELECT 1 FROM cancellations WHERE finished_at IS NULL)"
)
_COLUMNS: Final = (
    "id, user_uuid, filters, created_at, total, cancelled, refused, position_at, position_uuid,"
    " finished_at, error, holder, held_until"
)


# Seconds by which items of one batch may have been created after its call.
_BATCH: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation(WorkLease):
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

    @property
    def start(self) -> tuple[str, str]:
        """Its first position."""
        return start_of(self.created_at)


def start_of(created_at: str) -> tuple[str, str]:
    """The first position of a cancellation of this time: newer than the requests of a batch that is
    under way.
    """
    return later(created_at, _BATCH), ""


async def put(tx: Transaction, cancellation: Cancellation) -> None:
    """Store a cancellation, in place of its earlier state, deferred."""
    assignments = ", ".join(
        f"{name} = excluded.{name}" for name in _COLUMNS.split(", ") if name != "id"
    )
    sql = (
        f"INSERT INTO cancellations ({_COLUMNS}) VALUES ({', '.join('?' * 13)})"
        f" ON CONFLICT (id) DO UPDATE SET {assignments}"
    )
    values = (
        cancellation.id,
        cancellation.user_uuid,
        msgspec.json.encode(cancellation.filters).decode(),
        cancellation.created_at,
        cancellation.total,
        cancellation.cancelled,
        cancellation.refused,
        *cancellation.position,
        cancellation.finished_at,
        cancellation.error,
        cancellation.holder,
        cancellation.held_until,
    )
    await tx.defer(Deferred(sql=sql, values=values, row=f"cancellations {cancellation.id}"))


async def get(tx: Transaction, id: str) -> Cancellation | None:
    """A cancellation."""
    rows = await tx.fetch(f"SELECT {_COLUMNS} FROM cancellations WHERE id = ?", (id,))
    return _cancellation(rows[0]) if rows else None


async def get_now(tx: Transaction, id: str) -> tuple[Cancellation, int] | None:
    """A cancellation, and the number of the last log row, 0 without one: by one query."""
    rows = await tx.fetch(
        f"SELECT {_COLUMNS}, (SELECT max(id) FROM logs) FROM cancellations WHERE id = ?", (id,)
    )
    return (_cancellation(rows[0]), int(rows[0][-1] or 0)) if rows else None


async def unfinished(tx: Transaction) -> list[Cancellation]:
    """The cancellations that have not ended, oldest first."""
    rows = await tx.fetch(
        f"SELECT {_COLUMNS} FROM cancellations WHERE finished_at IS NULL ORDER BY created_at, id"
    )
    return [_cancellation(row) for row in rows]


async def features_in_use(tx: Transaction, cluster: str) -> frozenset[str]:
    """The kinds of subjects that have quotas, as `quotas.kinds`, and IN_USE: by one query, as each
    lock and each end of a container asks.
    """
    rows = await tx.fetch(_IN_USE, quotas.kinds_values(cluster))
    return frozenset(str(row[0]) for row in rows)


async def taken(tx: Transaction, *, after: str, most: int) -> list[str]:
    """The containers that a dispatcher has taken, or that run, whose uuids come after one."""
    rows = await tx.fetch(
        "SELECT uuid FROM containers WHERE state IN ('Locked', 'Running') AND uuid > ?"
        " ORDER BY uuid LIMIT ?",
        (after, most),
    )
    return [str(row[0]) for row in rows]


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


_REQUESTS: Final = (
    "uuid", "owner_uuid", "created_at", "modified_at", "modified_by_user_uuid", "name", "state",
    "priority", "requesting_container_uuid", "container_uuid", "max_parallel", "cumulative_cost",
    "expires_at", "start_after", "retry_after", "depends_on",
)  # fmt: skip
_DEPENDS: Final = _REQUESTS.index("depends_on")
# Subqueries hide the values from the planner of PostgreSQL. For values near the end of all times it
# expects fewer rows than the page has, and reads and sorts all of them for each page.
_PAGE: Final = (
    " AND created_at <= (SELECT CAST(? AS text)) AND (created_at < (SELECT CAST(? AS text))"
    " OR (created_at = (SELECT CAST(? AS text)) AND uuid < (SELECT CAST(? AS text))))"
)
_LIMIT: Final = " LIMIT (SELECT CAST(? AS bigint))"
_ORDER: Final = (SortKey("created_at", descending=True), SortKey("uuid", descending=True))


def page_query(
    dialect: Dialect, where: Sequence[Expression], position: tuple[str, str], size: int
) -> tuple[str, list[Value]]:
    """Query for the requests before a position that meet conditions, at least one: the newest."""
    writer = ConditionWriter(dialect, "container_requests")
    sql = (
        f"SELECT {', '.join(_REQUESTS)} FROM container_requests{writer.where(tuple(where))}{_PAGE}"
        f"{order_by(dialect, _ORDER, 'container_requests')}{_LIMIT}"
    )
    at, uuid = position
    return sql, [*writer.values, at, at, at, uuid, size]


async def page(
    tx: Transaction,
    dialect: Dialect,
    where: Sequence[Expression],
    position: tuple[str, str],
    *,
    size: int,
) -> list[Record]:
    """The newest requests before a position that meet conditions, at least one, newest first; the
    fields that their cancellation reads or shows.
    """
    found = []
    for row in await tx.fetch(*page_query(dialect, where, position, size)):
        record: Record = dict(zip(_REQUESTS, row, strict=True))
        record["depends_on"] = _decode(row[_DEPENDS])
        found.append(record)
    return found


# Columns of a container that its cancellation reads or shows, and whether several Committed
# requests want it.
_CONTAINERS: Final = (
    "SELECT uuid, owner_uuid, modified_at, modified_by_user_uuid, state, priority, runtime_status,"
    " finished_at, lock_count, locked_by_uuid, auth_uuid, (SELECT count(*) FROM container_requests"
    " r WHERE r.container_uuid = containers.uuid AND r.state = 'Committed') FROM containers WHERE "
)
_NAMES: Final = (
    "uuid", "owner_uuid", "modified_at", "modified_by_user_uuid", "state", "priority",
    "runtime_status", "finished_at", "lock_count", "locked_by_uuid", "auth_uuid",
)  # fmt: skip
_STATUS: Final = _NAMES.index("runtime_status")


async def containers_of(
    tx: Transaction, dialect: Dialect, uuids: Sequence[str]
) -> dict[str, tuple[Record, bool]]:
    """The fields of containers that their cancellation reads or shows, by uuid, and whether several
    Committed requests want each of them.
    """
    found = {}
    for row in await tx.fetch(_CONTAINERS + dialect.among.format("uuid"), (_texts(uuids),)):
        record: Record = dict(zip(_NAMES, row, strict=False))
        record["runtime_status"] = _decode(row[_STATUS])
        found[str(row[0])] = (record, int(row[-1] or 0) > 1)
    return found


async def with_dependents(tx: Transaction, dialect: Dialect, uuids: Sequence[str]) -> set[str]:
    """The requests among these that others wait for."""
    return await _matching_values(
        tx, dialect, "SELECT dependency_uuid FROM request_dependencies", "dependency_uuid", uuids
    )


async def with_charges(
    tx: Transaction, dialect: Dialect, container_uuids: Sequence[str]
) -> set[str]:
    """The containers among these that quotas were charged for, or hold back."""
    found = set[str]()
    for table in ("quota_charges", "quota_waits"):
        select = f"SELECT container_uuid FROM {table}"
        found |= await _matching_values(tx, dialect, select, "container_uuid", container_uuids)
    return found


async def unwatch_all(tx: Transaction, dialect: Dialect, uuids: Sequence[str]) -> None:
    """Delete the dependencies of requests."""
    condition = dialect.among.format("dependent_uuid")
    await tx.execute(f"DELETE FROM request_dependencies WHERE {condition}", (_texts(uuids),))


async def _matching_values(
    tx: Transaction, dialect: Dialect, select: str, column: str, values: Sequence[str]
) -> set[str]:
    """The first values of a query for rows whose column has one of these values."""
    sql = f"{select} WHERE {dialect.among.format(column)}"
    return {str(row[0]) for row in await tx.fetch(sql, (_texts(values),))}


def _texts(values: Sequence[str]) -> str:
    return msgspec.json.encode(values).decode()


def _decode(value: Value) -> JSON:
    return None if value is None else msgspec.json.decode(str(value))
