"""Containers whose results a request may reuse, as far as they concern its reader."""

# ruff: noqa: S608 - names come from the record types, values go into placeholders

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lading.core.containers.container import Container
from lading.core.containers.recipe import ReuseKey, broad_key, of_container
from lading.core.records.container_types import CONTAINERS
from lading.core.records.expressions import Expression
from lading.core.records.permissions import Requested
from lading.core.records.schema import Record
from lading.store import records
from lading.store.contents import UNTRASHED
from lading.store.database import Dialect, Row, Transaction, Value
from lading.store.permissions import reaches
from lading.store.query import ConditionWriter, alias_condition

# Most containers that are examined for reuse; the first rank is the rank of usable results.
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
            f"CASE WHEN {condition} THEN 1 ELSE 0 END"
            for condition in (self._present("log"), self._present("output"), self._shown)
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
    """Containers with one of these keys that meet the conditions, up to a limit. A reader is no
    administrator: then only containers that the reader can read, and containers whose results are
    missing or readable.

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
    keyed = " OR ".join(
        "broad_key = ?" if key.exact is None else "(broad_key = ? AND reuse_key = ?)"
        for key in keys
    )
    named = [value for key in keys for value in (key.broad, key.exact) if value is not None]
    # More containers of others than the limit must not hide the reader's own.
    own = "" if reader is None else " CASE WHEN runtime_user_uuid = ? THEN 0 ELSE 1 END,"
    rows = await records.selected_with(
        tx,
        CONTAINERS,
        columns,
        f" WHERE ({keyed}) AND {may}{further} ORDER BY {rank},{own} finished_at LIMIT {CANDIDATES}",
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
    containers = await records.among(tx, CONTAINERS, "uuid", [str(row[0]) for row in rows])
    return sorted(
        containers, key=lambda container: (str(container["finished_at"]), str(container["uuid"]))
    )


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
