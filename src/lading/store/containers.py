"""Queries on containers and requests beyond look-ups by one field."""

# ruff: noqa: S608 - names come from the record types, values go into placeholders

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from lading.core.containers.container import Container
from lading.core.containers.recipe import ReuseKey, broad_key, of_container
from lading.core.records.filters import Expression
from lading.core.records.record_types import CONTAINERS
from lading.core.records.schema import Record
from lading.store import records
from lading.store.contents import UNTRASHED
from lading.store.database import Dialect, Transaction
from lading.store.permissions import CHUNK
from lading.store.query import ConditionWriter

# Most containers that are examined for reuse; the first rank is that of usable results.
CANDIDATES = 50
# Containers compared to explain a miss. Below FEW with the same image, other ones are added.
NEAREST = 60
FEW = 20
# Of the log and of the output: whether a collection outside the trash has this content. Four
# placeholders, all the present time.
_HELD = ", ".join(
    "EXISTS (SELECT 1 FROM collections c"
    f" WHERE c.portable_data_hash = containers.{name} AND {UNTRASHED})"
    for name in ("log", "output")
)


@dataclass(frozen=True, slots=True)
class StoredContainer:
    """A container, and whether collections outside the trash hold its log and its output."""

    record: Record
    log_present: bool
    output_present: bool


async def candidates(
    tx: Transaction,
    dialect: Dialect,
    keys: Sequence[ReuseKey],
    filters: Sequence[Expression] = (),
    *,
    now: str,
) -> list[StoredContainer]:
    """Containers with one of these keys that meet the conditions, up to a limit.

    Order: containers with a result (oldest first), containers in progress, all others.
    """
    # 0: usable results; 1: containers whose result may come; 2: all others.
    rank = (
        "CASE WHEN state = 'Complete' AND exit_code = 0 THEN 0"
        " WHEN state IN ('Running', 'Locked', 'Queued') THEN 1 ELSE 2 END"
    )
    writer = ConditionWriter(dialect, "containers")
    further = "".join(f" AND ({writer.write(part)})" for part in filters)
    found = " OR ".join(
        "broad_key = ?" if one.exact is None else "(broad_key = ? AND reuse_key = ?)"
        for one in keys
    )
    values = [value for one in keys for value in (one.broad, one.exact) if value is not None]
    rows = await records.selected_with(
        tx,
        CONTAINERS,
        _HELD,
        f" WHERE ({found}){further} ORDER BY {rank}, finished_at LIMIT {CANDIDATES}",
        (*[now] * 4, *values, *writer.values),
    )
    return [StoredContainer(record, bool(log), bool(output)) for record, (log, output) in rows]


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


async def earlier(tx: Transaction, dialect: Dialect, created_at: str, image: str) -> list[Record]:
    """The latest containers with the same image made before a time; if few, also the last changed
    other containers.
    """
    latest = dialect.order("created_at", descending=True)
    rows = await tx.fetch(
        "SELECT uuid FROM containers WHERE container_image = ? AND created_at < ?"
        f" ORDER BY {latest} LIMIT {NEAREST}",
        (image, created_at),
    )
    if len(rows) < FEW:
        # Ordered by time of change, which has an index; each may be the container that the user
        # meant.
        changed = (
            f"{dialect.order('modified_at', descending=True)},"
            f" {dialect.order('uuid', descending=True)}"
        )
        rows += await tx.fetch(
            "SELECT uuid FROM containers WHERE container_image <> ? AND created_at < ?"
            f" ORDER BY {changed} LIMIT {NEAREST - len(rows)}",
            (image, created_at),
        )
    return await records.among(tx, CONTAINERS, "uuid", [str(row[0]) for row in rows])


async def warned(tx: Transaction, uuids: Collection[str]) -> dict[str, str]:
    """Warnings of waiting containers, by uuid."""
    # In parts: SQLite and PostgreSQL limit the number of placeholders of a statement.
    named, found = tuple(uuids), dict[str, str]()
    for start in range(0, len(named), CHUNK):
        part = named[start : start + CHUNK]
        rows = await tx.fetch(
            "SELECT uuid, runtime_status FROM containers"
            " WHERE state = 'Queued' AND runtime_status <> '{}'"
            f" AND uuid IN ({', '.join('?' for _ in part)})",
            part,
        )
        for uuid, status in rows:
            text = msgspec.json.decode(str(status)).get("warning")
            if text:
                found[str(uuid)] = str(text)
    return found


async def wanted_below(tx: Transaction, container_uuids: Collection[str]) -> list[str]:
    """Unfinished containers of Committed requests made by these containers."""
    marks = ", ".join("?" for _ in container_uuids)
    rows = await tx.fetch(
        "SELECT DISTINCT r.container_uuid FROM container_requests r"
        " JOIN containers c ON c.uuid = r.container_uuid"
        f" WHERE r.requesting_container_uuid IN ({marks}) AND r.state = 'Committed'"
        " AND c.state IN ('Queued', 'Locked', 'Running')",
        tuple(container_uuids),
    )
    return [str(row[0]) for row in rows]


async def wanted_by(tx: Transaction, owners: Sequence[str]) -> list[str]:
    """Unfinished containers of Committed requests owned by these projects."""
    found: dict[str, None] = {}
    for start in range(0, len(owners), CHUNK):
        part = tuple(owners[start : start + CHUNK])
        rows = await tx.fetch(
            "SELECT DISTINCT r.container_uuid FROM container_requests r"
            " JOIN containers c ON c.uuid = r.container_uuid"
            f" WHERE r.owner_uuid IN ({', '.join('?' for _ in part)}) AND r.state = 'Committed'"
            " AND c.state IN ('Queued', 'Locked', 'Running')",
            part,
        )
        found |= {str(row[0]): None for row in rows}
    return list(found)
