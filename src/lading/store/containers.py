"""Queries on containers and requests: reuse candidates, allocations, and the tried containers.

- Allocations (`Interval`): one row for each interval in which a container held resources for a
  request. Resources are allocated while a container is Locked or Running. A row is closed and
  another opened whenever the state, the priority of the request or the request's container changes.
  Closed rows are never changed. Rows stay after their records are deleted.
- `container_attempts` has a row for each container that a request tried before its present one.
  These rows decide who may read the log of a container: it is kept, and readable by its hash, while
  a request has the container, or has tried it.
"""

# ruff: noqa: S608 - names come from the record types, values go into placeholders

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from lading.core.containers.container import Container
from lading.core.containers.recipe import ReuseKey, broad_key, of_container
from lading.core.ids import EMPTY_PDH
from lading.core.records.container_types import CONTAINERS
from lading.core.records.expressions import Expression
from lading.core.records.permissions import Requested
from lading.core.records.schema import Record
from lading.store import records
from lading.store.contents import UNTRASHED
from lading.store.database import Deferred, Dialect, Row, Transaction, Value
from lading.store.permissions import CHUNK, reaches
from lading.store.query import ConditionWriter, alias_condition

# Most containers that are examined for reuse; the first rank is that of usable results.
CANDIDATES = 50
# Containers compared to explain a miss, and those whose readers are examined for that.
NEAREST = 60
WINDOW = 500


@dataclass(frozen=True, slots=True)
class StoredContainer:
    """A container, as far as it concerns a reader.

    `log_present`, `output_present`: whether collections outside the trash have its log and its
    output; where the container did not run for the reader, such that the reader can read. `shown`:
    whether the reader can read the container, or it ran for the reader.
    """

    record: Record
    log_present: bool
    output_present: bool
    shown: bool


class _ReaderConditions:
    """Conditions on containers for one reader: a user, or None for administrators."""

    def __init__(self, dialect: Dialect, reader: str | None, now: str) -> None:
        writer = ConditionWriter(dialect, "containers")
        self._shown = "1 = 1"
        self._shown_values: list[Value] = []
        self._readable = ""
        self._readable_values: list[Value] = [now, now]
        if reader is not None:
            requested = writer.write(Requested(reader, now))
            self._shown = f"(containers.runtime_user_uuid = ? OR {requested})"
            self._shown_values = [reader, *writer.values]
            owned, shared = reaches("c.owner_uuid", 1, owning=True), reaches("c.uuid", 1)
            self._readable = (
                f" AND (containers.runtime_user_uuid = ? OR c.owner_uuid = ? OR {owned}"
                f" OR {shared})"
            )
            self._readable_values += [reader] * 4

    def _present(self, name: str) -> str:
        return (
            "EXISTS (SELECT 1 FROM collections c"
            f" WHERE c.portable_data_hash = containers.{name} AND {UNTRASHED}{self._readable})"
        )

    @property
    def columns(self) -> tuple[str, list[Value]]:
        """Expressions for the attributes of a StoredContainer after the record, and values."""
        expressions = ", ".join(
            f"CASE WHEN {one} THEN 1 ELSE 0 END"
            for one in (self._present("log"), self._present("output"), self._shown)
        )
        return expressions, [*self._readable_values * 2, *self._shown_values]

    @property
    def concerns(self) -> tuple[str, list[Value]]:
        """The condition that the reader can read a container, its results, or perhaps will, and its
        values.
        """
        live = "containers.state IN ('Running', 'Locked', 'Queued')"
        results = f"({self._present('log')} AND {self._present('output')})"
        values = [*self._shown_values, *self._readable_values * 2]
        return f"({self._shown} OR {live} OR {results})", values

    @property
    def shown(self) -> tuple[str, list[Value]]:
        """The condition that a container is shown to the reader, and its values."""
        return self._shown, self._shown_values


async def candidates(
    tx: Transaction,
    dialect: Dialect,
    keys: Sequence[ReuseKey],
    filters: Sequence[Expression] = (),
    *,
    reader: str | None,
    now: str,
) -> list[StoredContainer]:
    """Containers with one of these keys that meet the conditions, up to a limit; for a reader, who
    is no administrator, those whose results the reader can read or that have none yet, and those
    that the reader can read.

    Only containers that the reader can read are compared with `filters`. Order: containers with a
    result (oldest first), containers in progress, all others; in each, the reader's own are first.
    """
    # 0: usable results; 1: containers whose result may come; 2: all others.
    rank = (
        "CASE WHEN state = 'Complete' AND exit_code = 0 THEN 0"
        " WHEN state IN ('Running', 'Locked', 'Queued') THEN 1 ELSE 2 END"
    )
    conditions = _ReaderConditions(dialect, reader, now)
    columns, selected = conditions.columns
    # A filter must not be answered for a container that the reader cannot read.
    may, values = conditions.shown if filters else conditions.concerns
    further, filtered = alias_condition(dialect, "containers", filters)
    found = " OR ".join(
        "broad_key = ?" if one.exact is None else "(broad_key = ? AND reuse_key = ?)"
        for one in keys
    )
    named = [value for one in keys for value in (one.broad, one.exact) if value is not None]
    # More containers of others than the limit must not hide the reader's own.
    own = "" if reader is None else " CASE WHEN runtime_user_uuid = ? THEN 0 ELSE 1 END,"
    rows = await records.selected_with(
        tx,
        CONTAINERS,
        columns,
        f" WHERE ({found}) AND {may}{further} ORDER BY {rank},{own} finished_at LIMIT {CANDIDATES}",
        (*selected, *named, *values, *filtered, *([] if reader is None else [reader])),
    )
    return [_stored(record, row) for record, row in rows]


async def candidate(
    tx: Transaction, dialect: Dialect, uuid: str, *, reader: str | None, now: str
) -> StoredContainer | None:
    """One container, as far as it concerns a reader (None: an administrator); None if there is no
    such container.
    """
    columns, values = _ReaderConditions(dialect, reader, now).columns
    rows = await records.selected_with(tx, CONTAINERS, columns, " WHERE uuid = ?", (*values, uuid))
    return _stored(*rows[0]) if rows else None


def _stored(record: Record, row: Row) -> StoredContainer:
    log, output, shown = row
    return StoredContainer(record, bool(log), bool(output), bool(shown))


async def repeats(
    tx: Transaction, dialect: Dialect, broad: str, readable: Sequence[Expression]
) -> list[Record]:
    """The Complete containers with this broad key that meet the conditions of `readable`, the
    earliest finished first, up to a limit.
    """
    condition, values = alias_condition(dialect, "containers", readable)
    rows = await tx.fetch(
        f"SELECT uuid FROM containers WHERE broad_key = ? AND state = 'Complete'{condition}"
        f" ORDER BY finished_at LIMIT {CANDIDATES}",
        (broad, *values),
    )
    found = await records.among(tx, CONTAINERS, "uuid", [str(row[0]) for row in rows])
    return sorted(found, key=lambda one: (str(one["finished_at"]), str(one["uuid"])))


async def states(tx: Transaction, uuids: Sequence[str]) -> dict[str, Record]:
    """Map each uuid to its container's state, priority and `locked_by_uuid`; unknown uuids are left
    out.
    """
    rows = await tx.fetch(
        "SELECT uuid, state, priority, locked_by_uuid FROM containers"
        f" WHERE uuid IN ({', '.join('?' for _ in uuids)})",
        tuple(uuids),
    )
    names = ("uuid", "state", "priority", "locked_by_uuid")
    return {str(row[0]): dict(zip(names, row, strict=True)) for row in rows}


async def withdrawn_above(
    tx: Transaction, dialect: Dialect, container_uuid: str, readable: Sequence[Expression]
) -> list[Record]:
    """Containers whose results were withdrawn and from which the inputs of a container were made,
    directly or by others; ten at most. Only containers that meet the conditions of `readable`
    count, on the way too.

    A content that another container has made too, whose result stands, comes from none of them.
    """
    if not await tx.fetch("SELECT 1 FROM containers WHERE withdrawn_at IS NOT NULL LIMIT 1"):
        return []
    maker, values = alias_condition(dialect, "c", readable)
    other, others = alias_condition(dialect, "o", readable)
    makers = (
        "SELECT c.uuid FROM container_inputs i JOIN containers c"
        f" ON c.output = i.portable_data_hash AND i.portable_data_hash <> ?{maker}"
    )
    rows = await tx.fetch(
        f"WITH RECURSIVE above (uuid) AS ({makers} WHERE i.container_uuid = ?"
        f" UNION {makers} JOIN above a ON i.container_uuid = a.uuid)"
        " SELECT c.uuid FROM above a JOIN containers c ON c.uuid = a.uuid"
        " WHERE c.withdrawn_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM containers o"
        f" WHERE o.output = c.output AND o.state = 'Complete' AND o.withdrawn_at IS NULL{other})"
        " ORDER BY c.uuid LIMIT 10",
        (EMPTY_PDH, *values, container_uuid, EMPTY_PDH, *values, *others),
    )
    return await records.among(tx, CONTAINERS, "uuid", [str(row[0]) for row in rows])


async def fill_broad_keys(tx: Transaction) -> None:
    """Migration: store the broad keys of containers that are older than broad keys."""
    # Each update removes rows from the condition, so that the loop needs no position.
    while True:
        rows = await tx.fetch(
            "SELECT uuid FROM containers WHERE broad_key IS NULL AND reuse_key IS NOT NULL"
            " LIMIT 500",
        )
        if not rows:
            return
        for record in await records.among(tx, CONTAINERS, "uuid", [str(row[0]) for row in rows]):
            found = broad_key(of_container(Container.from_record(record)))
            await records.update(tx, CONTAINERS, record["uuid"], {"broad_key": found})


async def earlier(
    tx: Transaction,
    dialect: Dialect,
    created_at: str,
    image: str,
    readable: Sequence[Expression],
) -> list[Record]:
    """The latest containers with the same image made before a time that meet the conditions of
    `readable`; only the WINDOW latest ones with the image are examined.
    """
    latest = dialect.order("created_at", descending=True)
    conditions, values = alias_condition(dialect, "containers", readable)
    rows = await tx.fetch(
        # The conditions are tested for the rows of the window alone: of a user who can read none
        # of many containers with one image, the query would test them all.
        "SELECT uuid FROM containers WHERE uuid IN (SELECT uuid FROM containers"
        f" WHERE container_image = ? AND created_at < ? ORDER BY {latest} LIMIT {WINDOW})"
        f"{conditions} ORDER BY {latest} LIMIT {NEAREST}",
        (image, created_at, *values),
    )
    return await records.among(tx, CONTAINERS, "uuid", [str(row[0]) for row in rows])


# Each part is one range of the index: to group the rows takes ten times as long.
LIVE_COUNTS: Final = " UNION ALL ".join(
    f"SELECT CAST('{name}' AS TEXT), count(*) FROM containers WHERE {condition}"
    for name, condition in (
        ("Queued", "state = 'Queued' AND priority > 0"),
        ("On hold", "state = 'Queued' AND priority <= 0"),
        ("Locked", "state = 'Locked'"),
        ("Running", "state = 'Running'"),
    )
)
"""The query of `live_counts`."""


async def live_counts(tx: Transaction) -> dict[str, int]:
    """Number of the containers that have not ended, by state; `On hold` are those in the queue that
    no request wants now. Read from the index of states and priorities alone.
    """
    return {str(row[0]): int(row[1] or 0) for row in await tx.fetch(LIVE_COUNTS)}


# The condition on the state is in a form without an index: SQLite would read all that wait, as it
# expects few of them.
WARNED: Final = (
    "SELECT uuid, runtime_status FROM containers WHERE uuid IN ({})"
    " AND CASE WHEN state = 'Queued' AND runtime_status <> '{{}}' THEN TRUE ELSE FALSE END"
)
"""Waiting containers with a status among some; `str.format` with the placeholders of uuids."""


async def warned(tx: Transaction, uuids: Collection[str]) -> dict[str, str]:
    """Warnings of waiting containers, by uuid."""
    # In parts: SQLite and PostgreSQL limit the number of placeholders of a statement.
    named, found = tuple(uuids), dict[str, str]()
    for start in range(0, len(named), CHUNK):
        part = named[start : start + CHUNK]
        rows = await tx.fetch(
            WARNED.format(", ".join("?" for _ in part)),
            part,
        )
        for uuid, status in rows:
            text = msgspec.json.decode(str(status)).get("warning")
            if text:
                found[str(uuid)] = str(text)
    return found


async def wanted_below(
    tx: Transaction, container_uuids: Collection[str], *, most: int
) -> list[str]:
    """Some unfinished containers of Committed requests made by these containers."""
    return await _wanted(tx, "requesting_container_uuid", container_uuids, most=most)


async def wanted_by(tx: Transaction, owners: Sequence[str], *, most: int) -> list[str]:
    """Some unfinished containers of Committed requests owned by these projects."""
    found: dict[str, None] = {}
    for start in range(0, len(owners), CHUNK):
        part = owners[start : start + CHUNK]
        found |= dict.fromkeys(await _wanted(tx, "owner_uuid", part, most=most - len(found)))
        if len(found) >= most:
            break
    return list(found)


async def _wanted(tx: Transaction, column: str, values: Collection[str], *, most: int) -> list[str]:
    marks = ", ".join("?" for _ in values)
    rows = await tx.fetch(
        "SELECT DISTINCT r.container_uuid FROM container_requests r"
        f" WHERE r.{column} IN ({marks}) AND r.state = 'Committed'"
        # No join: for many values SQLite would begin with all containers that have not ended.
        " AND EXISTS (SELECT 1 FROM containers c WHERE c.uuid = r.container_uuid"
        " AND c.state IN ('Queued', 'Locked', 'Running')) LIMIT ?",
        (*values, most),
    )
    return [str(row[0]) for row in rows]


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


@dataclass(frozen=True, slots=True)
class OrphanedContainer:
    """A container that is held by a token which has ended. `heard`: when the token of its
    supervisor was last used, as far as that is stored.
    """

    uuid: str
    supervisor_auth_uuid: str | None
    heard: str | None


async def orphaned(tx: Transaction, now: str, *, root_token: str) -> list[OrphanedContainer]:
    """The containers that are Locked or Running and whose holder's token was deleted, has expired,
    or belongs to a user who is no admin any more. The root token is not stored, and never ends.
    """
    rows = await tx.fetch(
        "SELECT c.uuid, c.supervisor_auth_uuid, s.last_used_at FROM containers c"
        " LEFT JOIN api_client_authorizations t ON t.uuid = c.locked_by_uuid"
        " LEFT JOIN users u ON u.uuid = t.owner_uuid"
        " LEFT JOIN api_client_authorizations s ON s.uuid = c.supervisor_auth_uuid"
        " WHERE c.state IN ('Locked', 'Running') AND c.locked_by_uuid <> ?"
        " AND (t.uuid IS NULL OR t.expires_at <= ? OR u.uuid IS NULL OR u.is_admin = 0)"
        " ORDER BY c.uuid",
        (root_token, now),
    )
    return [
        OrphanedContainer(
            uuid=str(uuid),
            supervisor_auth_uuid=None if supervisor is None else str(supervisor),
            heard=None if heard is None else str(heard),
        )
        for uuid, supervisor, heard in rows
    ]


ATTEMPT_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS container_attempts (container_uuid TEXT NOT NULL,"
    " request_uuid TEXT NOT NULL, PRIMARY KEY (container_uuid, request_uuid))",
    "CREATE INDEX IF NOT EXISTS container_attempts_request_uuid"
    " ON container_attempts (request_uuid)",
)
# Requests that have the container `c` now, or had it before.
_REQUESTS: Final = (
    "SELECT r.uuid FROM container_requests r WHERE r.container_uuid = c.uuid"
    " UNION ALL SELECT r.uuid FROM container_attempts a"
    " JOIN container_requests r ON r.uuid = a.request_uuid WHERE a.container_uuid = c.uuid"
)
# The last copy only: while another collection has the same content, this one may go.
WANTED_LOG: Final = (
    "EXISTS (SELECT 1 FROM containers c WHERE c.log = collections.portable_data_hash"
    f" AND EXISTS ({_REQUESTS})) AND NOT EXISTS (SELECT 1 FROM collections other"
    " WHERE other.portable_data_hash = collections.portable_data_hash"
    " AND other.uuid <> collections.uuid AND (other.delete_at IS NULL OR other.delete_at > ?))"
)
"""The condition that a collection is the last one with the log of a container of a request; the
placeholder is the time."""
# Rows per query of the migration, so that memory does not grow with the table.
_ATTEMPTS_PAGE: Final = 500


async def note_attempts(tx: Transaction, request: Record) -> None:
    """Store the containers that a request has tried."""
    for uuid in request["attempted_container_uuids"] or ():
        values = (uuid, request["uuid"])
        sql = "INSERT INTO container_attempts VALUES (?, ?) ON CONFLICT DO NOTHING"
        await tx.defer(Deferred(sql=sql, values=values, row=f"container_attempts {values}"))


async def forget_attempts(tx: Transaction, request_uuid: str) -> None:
    """Delete the rows of a deleted request."""
    await tx.execute("DELETE FROM container_attempts WHERE request_uuid = ?", (request_uuid,))


async def fill_attempts(tx: Transaction) -> None:
    """Migration: store the attempts of requests that are older than this table."""
    # Continues after the last uuid of each page, without an open cursor.
    after = ""
    while rows := await tx.fetch(
        "SELECT uuid, attempted_container_uuids FROM container_requests WHERE uuid > ?"
        " AND CAST(attempted_container_uuids AS TEXT) <> '[]' ORDER BY uuid LIMIT ?",
        (after, _ATTEMPTS_PAGE),
    ):
        for uuid, tried in rows:
            found = msgspec.json.decode(str(tried), type=list[str])
            await note_attempts(tx, {"uuid": str(uuid), "attempted_container_uuids": found})
        after = str(rows[-1][0])


async def requests_with_log(tx: Transaction, pdh: str) -> list[str]:
    """Requests with a present or earlier container whose log has this portable data hash."""
    rows = await tx.fetch(
        "SELECT r.uuid FROM containers c JOIN container_requests r ON r.container_uuid = c.uuid"
        " WHERE c.log = ?"
        " UNION SELECT a.request_uuid FROM containers c"
        " JOIN container_attempts a ON a.container_uuid = c.uuid"
        " WHERE c.log = ?",
        (pdh, pdh),
    )
    return [str(row[0]) for row in rows]
