"""Questions about collections that are more than a look-up by one field."""

# ruff: noqa: S608 - names are written here, values go into placeholders

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lading.core.records import COLLECTIONS
from lading.core.schema import Record
from lading.store import records
from lading.store.database import Transaction
from lading.store.reaching import reaches

UNTRASHED: Final = (
    "(c.trash_at IS NULL OR c.trash_at > ?) AND NOT EXISTS"
    " (SELECT 1 FROM group_standing s WHERE s.uuid = c.owner_uuid AND s.trash_at <= ?)"
)
"""The condition that a collection `c` is not in the trash; both placeholders are the time."""
# Said as the partial index says it, and for each name, so that the index is used however many the owner has.
_HOLDER: Final = (
    "SELECT c.uuid FROM collections c WHERE c.owner_uuid = {owner} AND c.name = {name}"
    " AND c.is_trashed = 0 AND c.current_version_uuid = c.uuid LIMIT 1"
)

_ANY_WITH_HASH: Final = (
    "SELECT c.portable_data_hash, CAST(NULL AS TEXT), c.manifest_text, c.file_count, c.file_size_total"
    " FROM collections c WHERE c.portable_data_hash = ? LIMIT 1"
)


async def names_taken(tx: Transaction, owner_uuid: str, names: Collection[str], *, besides: str = "") -> set[str]:
    """Those of some names that another present collection of the owner has."""
    if not names:
        return set()
    rows = await tx.fetch(
        f"WITH wanted (name) AS (VALUES {', '.join('(?)' for _ in names)}) SELECT wanted.name,"
        f" ({_HOLDER.format(owner='?', name='wanted.name')}) FROM wanted",
        (*names, owner_uuid),
    )
    return {str(name) for name, uuid in rows if uuid not in (None, besides)}


async def present(
    tx: Transaction, hashes: Collection[str], now: str, *, reader: str | None, trashed: bool = False
) -> set[str]:
    """Those of some hashes that a collection has: anybody's, or one that a user can read; in the trash too, or not."""
    if not hashes:
        return set()
    condition, values = "c.portable_data_hash = wanted.pdh", [*hashes]
    if reader is not None:
        owned, shared = reaches("c.owner_uuid", 1, owning=True), reaches("c.uuid", 1)
        condition, values = f"{condition} AND (c.owner_uuid = ? OR {owned} OR {shared})", [*values, *[reader] * 3]
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
) -> tuple[dict[str, tuple[str, int, int]], set[tuple[str, str]]]:
    """What is to be known when content gets further collections, in one look.

    Manifest, number of files and size by hash, of any collection that has it, in the trash or not; and which of some
    (owner, name) present collections have.
    """
    asked = [_ANY_WITH_HASH] * len(hashes)
    values = [*hashes]
    if names:
        asked.append(
            f"WITH named (owner, name) AS (VALUES {', '.join('(?, ?)' for _ in names)}) SELECT named.owner, named.name,"
            f" ({_HOLDER.format(owner='named.owner', name='named.name')}), 0, 0 FROM named"
        )
        values += (part for pair in names for part in pair)
    rows = await tx.fetch(" UNION ALL ".join(f"SELECT * FROM ({one}) part" for one in asked), values) if asked else []
    known = {str(row[0]): (str(row[2]), int(row[3] or 0), int(row[4] or 0)) for row in rows if row[1] is None}
    return known, {(str(row[0]), str(row[1])) for row in rows if row[1] is not None and row[2] is not None}


async def update_versions(tx: Transaction, uuid: str, changes: Record) -> None:
    """Change the past versions of a collection alike."""
    rows = await tx.fetch("SELECT uuid FROM collections WHERE current_version_uuid = ? AND uuid <> ?", (uuid, uuid))
    for row in rows:
        await records.update(tx, COLLECTIONS, str(row[0]), changes)
