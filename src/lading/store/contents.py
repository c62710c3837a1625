"""Queries on contents of collections: their names, hashes and blocks, and their provenance.

Blocks are those of all collections, of collections in the trash and past versions too. Provenance
is the containers that produced a content, and those that used it: `container_inputs` lists the
contents that each container mounts, so that users of a content are found by an index; a row is made
with the container and left when that is deleted.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from lading.core.ids import EMPTY_PDH
from lading.core.records.expressions import Expression
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import Record
from lading.store import records
from lading.store.database import Deferred, Dialect, Row, Transaction, Value
from lading.store.permissions import reaches
from lading.store.query import alias_condition

UNTRASHED: Final = (
    "(c.trash_at IS NULL OR c.trash_at > ?) AND NOT EXISTS"
    " (SELECT 1 FROM group_standing s WHERE s.uuid = c.owner_uuid AND s.trash_at <= ?)"
)
"""SQL condition: the collection `c` is not in the trash. Both placeholders are the present time."""
# Written like the condition of the partial index, one term per name, so that the planner always
# uses the index.
_HOLDER: Final = (
    "SELECT c.uuid FROM collections c WHERE c.owner_uuid = {owner} AND c.name = {name}"
    " AND c.is_trashed = 0 AND c.current_version_uuid = c.uuid LIMIT 1"
)

# The second column is null in rows about content, and a name in rows about names
# (`for_keeping`).
_ANY_WITH_HASH: Final = (
    "SELECT c.portable_data_hash, CAST(NULL AS TEXT), c.manifest_text, c.file_count,"
    " c.file_size_total, c.storage_classes_confirmed FROM collections c"
    " WHERE c.portable_data_hash = ? LIMIT 1"
)
# Fields of a Reference, in its order.
_FIELDS = (
    "uuid, manifest_text, replication_desired, storage_classes_desired, portable_data_hash,"
    " replication_confirmed, storage_classes_confirmed"
)


class StoredContent(NamedTuple):
    """The content of a collection, and the storage classes that are confirmed for it."""

    manifest_text: str
    files: int
    size: int
    confirmed: tuple[str, ...] = ()


async def names_taken(
    tx: Transaction, owner_uuid: str, names: Collection[str], *, besides: str = ""
) -> set[str]:
    """The names among `names` that another present collection of the owner has."""
    if not names:
        return set()
    rows = await tx.fetch(
        # One row for each wanted name, with the uuid of its holder or null: the index answers each.
        f"WITH wanted (name) AS (VALUES {', '.join('(?)' for _ in names)}) SELECT wanted.name,"
        f" ({_HOLDER.format(owner='?', name='wanted.name')}) FROM wanted",
        (*names, owner_uuid),
    )
    return {str(name) for name, uuid in rows if uuid not in (None, besides)}


async def present(
    tx: Transaction, hashes: Collection[str], now: str, *, reader: str | None, trashed: bool = False
) -> set[str]:
    """The hashes that some collection has: any collection, or one that the user can read; with or
    without the trash.
    """
    if not hashes:
        return set()
    condition, values = "c.portable_data_hash = wanted.pdh", [*hashes]
    # A collection is readable through its owner or by a link to itself.
    if reader is not None:
        owned, shared = reaches("c.owner_uuid", 1, owning=True), reaches("c.uuid", 1)
        condition, values = (
            f"{condition} AND (c.owner_uuid = ? OR {owned} OR {shared})",
            [*values, *[reader] * 3],
        )
    if not trashed:
        condition, values = f"{condition} AND {UNTRASHED}", [*values, now, now]
    rows = await tx.fetch(
        f"WITH wanted (pdh) AS (VALUES {', '.join('(?)' for _ in hashes)}) SELECT pdh FROM wanted"
        f" WHERE EXISTS (SELECT 1 FROM collections c WHERE {condition})",
        values,
    )
    return {str(row[0]) for row in rows}


async def for_keeping(
    tx: Transaction, hashes: Collection[str], names: Collection[tuple[str, str]]
) -> tuple[dict[str, StoredContent], set[tuple[str, str]]]:
    """Facts for storing content in further collections, in one query.

    Returns the content by hash, as any collection with that hash has it, and the
    (owner, name) pairs that present collections have taken.
    """
    asked = [_ANY_WITH_HASH] * len(hashes)
    # All parts have six columns, so that one UNION ALL answers everything in one round trip.
    values = [*hashes]
    if names:
        asked.append(
            f"WITH named (owner, name) AS (VALUES {', '.join('(?, ?)' for _ in names)})"
            " SELECT named.owner, named.name,"
            f" ({_HOLDER.format(owner='named.owner', name='named.name')}), 0, 0, '' FROM named"
        )
        values += (part for pair in names for part in pair)
    rows = (
        await tx.fetch(" UNION ALL ".join(f"SELECT * FROM ({one}) part" for one in asked), values)
        if asked
        else []
    )
    known = {
        str(row[0]): StoredContent(str(row[2]), int(row[3] or 0), int(row[4] or 0), _names(row[5]))
        for row in rows
        if row[1] is None
    }
    return known, {
        (str(row[0]), str(row[1])) for row in rows if row[1] is not None and row[2] is not None
    }


async def update_versions(tx: Transaction, uuid: str, changes: Record) -> None:
    """Apply the same change to all past versions of a collection."""
    rows = await tx.fetch(
        "SELECT uuid FROM collections WHERE current_version_uuid = ? AND uuid <> ?", (uuid, uuid)
    )
    for row in rows:
        await records.update(tx, COLLECTIONS, str(row[0]), changes)


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """One collection: manifest, desired copies and desired storage classes, None where not set,
    and what is confirmed.
    """

    uuid: str
    manifest_text: str
    replication_desired: int | None
    storage_classes_desired: tuple[str, ...]
    portable_data_hash: str = ""
    replication_confirmed: int | None = None
    storage_classes_confirmed: tuple[str, ...] = ()


async def references_after(tx: Transaction, *, after: str, limit: int) -> list[StoredManifest]:
    """The next collections in the order of their uuids."""
    sql = f"SELECT {_FIELDS} FROM collections WHERE uuid > ? ORDER BY uuid LIMIT ?"
    return [_reference(row) for row in await tx.fetch(sql, (after, limit))]


async def references_changed(
    tx: Transaction, *, since: str, after: str, limit: int
) -> list[StoredManifest]:
    """The next collections created or changed since an API timestamp."""
    sql = (
        f"SELECT {_FIELDS} FROM collections"
        " WHERE modified_at >= ? AND uuid > ? ORDER BY uuid LIMIT ?"
    )
    return [_reference(row) for row in await tx.fetch(sql, (since, after, limit))]


async def naming_block(tx: Transaction, hash: str, *, limit: int) -> list[tuple[str, str, str]]:
    """(uuid, name, manifest) of collections that name a block. Reads every manifest."""
    # `hash` is 32 hex digits, so it has no wildcard of LIKE.
    rows = await tx.fetch(
        "SELECT uuid, name, manifest_text FROM collections WHERE manifest_text LIKE ?"
        " ORDER BY uuid LIMIT ?",
        (f"%{hash}%", limit),
    )
    return [(str(uuid), str(name or ""), str(text or "")) for uuid, name, text in rows]


def _reference(row: Row) -> StoredManifest:
    uuid, text, copies, classes, pdh, confirmed, confirmed_classes = row
    return StoredManifest(
        str(uuid),
        str(text or ""),
        None if copies is None else int(copies),
        _names(classes),
        str(pdh or ""),
        None if confirmed is None else int(confirmed),
        _names(confirmed_classes),
    )


def _names(classes: Value) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(str(classes), type=list[str])) if classes else ()


INPUT_TABLES = (
    "CREATE TABLE IF NOT EXISTS container_inputs (portable_data_hash TEXT NOT NULL,"
    " container_uuid TEXT NOT NULL, PRIMARY KEY (portable_data_hash, container_uuid))",
    "CREATE INDEX IF NOT EXISTS container_inputs_by_container ON container_inputs (container_uuid)",
)
# Rows per query of the migration.
_PAGE = 500


async def note_inputs(tx: Transaction, container: Record) -> None:
    """Store the contents that a new container mounts."""
    mounts = container["mounts"].values()
    # One row per content: dict.fromkeys removes duplicates and keeps the order.
    hashes = (mount.get("portable_data_hash") for mount in mounts if isinstance(mount, dict))
    for one in dict.fromkeys(found for found in hashes if found and isinstance(found, str)):
        values = (one, container["uuid"])
        sql = "INSERT INTO container_inputs VALUES (?, ?) ON CONFLICT DO NOTHING"
        await tx.defer(Deferred(sql=sql, values=values, row=f"container_inputs {values}"))


async def fill_inputs(tx: Transaction) -> None:
    """Migration: store the inputs of containers that are older than this table."""
    after = ""
    while rows := await tx.fetch(
        "SELECT uuid, mounts FROM containers WHERE uuid > ? ORDER BY uuid LIMIT ?", (after, _PAGE)
    ):
        for uuid, mounts in rows:
            await note_inputs(
                tx,
                {"uuid": str(uuid), "mounts": msgspec.json.decode(str(mounts or "{}"), type=dict)},
            )
        after = str(rows[-1][0])


async def makers(
    tx: Transaction,
    dialect: Dialect,
    hashes: Collection[str],
    readable: Sequence[Expression],
    *,
    limit: int,
) -> list[str]:
    """Containers whose output or log is one of these contents and that meet the conditions of
    `readable`, the latest first.
    """
    marks = ", ".join("?" for _ in hashes)
    condition, values = alias_condition(dialect, "containers", readable)
    rows = await tx.fetch(
        f"SELECT uuid FROM containers WHERE (output IN ({marks}) OR log IN ({marks})){condition}"
        " ORDER BY created_at DESC LIMIT ?",
        (*hashes, *hashes, *values, limit),
    )
    return [str(row[0]) for row in rows]


async def lineage(
    tx: Transaction,
    dialect: Dialect,
    hashes: Collection[str],
    readable: Sequence[Expression],
    *,
    is_upward: bool,
    limit: int,
) -> list[str]:
    """All containers from which these contents were made, directly or by others, or that have used
    them; at most `limit`. Nothing is followed through containers that do not meet the conditions of
    `readable`.

    Nor is it through the empty content, which any command may leave.
    """
    marks = ", ".join("?" for _ in hashes)
    condition, values = alias_condition(dialect, "c", readable)
    if is_upward:
        first = (
            "SELECT c.uuid FROM containers c"
            f" WHERE (c.output IN ({marks}) OR c.log IN ({marks})){condition}"
        )
        step = (
            "SELECT c.uuid FROM found f JOIN container_inputs i ON i.container_uuid = f.uuid"
            " JOIN containers c ON c.output = i.portable_data_hash"
            f" WHERE i.portable_data_hash <> ?{condition}"
        )
        starting = [*hashes, *hashes, *values]
    else:
        first = (
            f"SELECT c.uuid FROM containers c WHERE c.container_image IN ({marks}){condition}"
            " UNION SELECT c.uuid FROM container_inputs i JOIN containers c"
            f" ON c.uuid = i.container_uuid WHERE i.portable_data_hash IN ({marks}){condition}"
        )
        step = (
            "SELECT c.uuid FROM found f JOIN containers d ON d.uuid = f.uuid"
            " JOIN container_inputs i ON i.portable_data_hash = d.output"
            f" JOIN containers c ON c.uuid = i.container_uuid WHERE d.output <> ?{condition}"
        )
        starting = [*hashes, *values, *hashes, *values]
    rows = await tx.fetch(
        f"WITH RECURSIVE found (uuid) AS (SELECT uuid FROM ({first}) AS start UNION {step})"
        " SELECT uuid FROM found LIMIT ?",
        (*starting, EMPTY_PDH, *values, limit),
    )
    return [str(row[0]) for row in rows]


async def users(
    tx: Transaction,
    dialect: Dialect,
    hashes: Collection[str],
    readable: Sequence[Expression],
    *,
    limit: int,
) -> list[str]:
    """Containers that have one of these contents as an input or as their image and that meet the
    conditions of `readable`, the latest first.
    """
    marks = ", ".join("?" for _ in hashes)
    condition, values = alias_condition(dialect, "used", readable)
    rows = await tx.fetch(
        "SELECT uuid FROM (SELECT uuid, created_at FROM containers"
        f" WHERE container_image IN ({marks})"
        " UNION SELECT c.uuid, c.created_at FROM container_inputs i"
        " JOIN containers c ON c.uuid = i.container_uuid"
        f" WHERE i.portable_data_hash IN ({marks})) AS used WHERE 1 = 1{condition}"
        " ORDER BY created_at DESC LIMIT ?",
        (*hashes, *hashes, *values, limit),
    )
    return [str(row[0]) for row in rows]
