"""Queries on contents of collections: their names, hashes and blocks.

The blocks are the blocks of all collections, in the trash and past versions too.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import Record
from lading.store import records
from lading.store.database import Row, Transaction, Value
from lading.store.permissions import reaches

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
    # All queries have six columns, so that one UNION ALL sends them in one round trip.
    values = [*hashes]
    if names:
        asked.append(
            f"WITH named (owner, name) AS (VALUES {', '.join('(?, ?)' for _ in names)})"
            " SELECT named.owner, named.name,"
            f" ({_HOLDER.format(owner='named.owner', name='named.name')}), 0, 0, '' FROM named"
        )
        values += (value for pair in names for value in pair)
    rows = (
        await tx.fetch(
            " UNION ALL ".join(f"SELECT * FROM ({query}) part" for query in asked), values
        )
        if asked
        else []
    )
    contents = {
        str(row[0]): StoredContent(str(row[2]), int(row[3] or 0), int(row[4] or 0), _names(row[5]))
        for row in rows
        if row[1] is None
    }
    return contents, {
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
    and the confirmed copies.
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
    return [(str(uuid), str(name or ""), str(manifest or "")) for uuid, name, manifest in rows]


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
