"""Questions about collections that are more than a look-up by one field."""

# ruff: noqa: S608 - names are written here, values go into placeholders

from __future__ import annotations

from collections.abc import Collection

from lading.core.records import COLLECTIONS
from lading.core.schema import Record
from lading.store import records
from lading.store.database import Transaction
from lading.store.reaching import reaches


async def names_taken(tx: Transaction, owner_uuid: str, names: Collection[str], *, besides: str = "") -> set[str]:
    """Those of some names that another present collection of the owner has."""
    if not names:
        return set()
    # Said as the partial index says it, and for each name, so that the index is used however many the owner has.
    rows = await tx.fetch(
        f"WITH wanted (name) AS (VALUES {', '.join('(?)' for _ in names)}) SELECT wanted.name,"
        " (SELECT c.uuid FROM collections c WHERE c.owner_uuid = ? AND c.name = wanted.name"
        " AND c.is_trashed = 0 AND c.current_version_uuid = c.uuid LIMIT 1) FROM wanted",
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
        below = "SELECT s.uuid FROM group_standing s WHERE s.trash_at <= ?"
        condition = f"{condition} AND (c.trash_at IS NULL OR c.trash_at > ?) AND c.owner_uuid NOT IN ({below})"
        values = [*values, now, now]
    rows = await tx.fetch(
        f"WITH wanted (pdh) AS (VALUES {', '.join('(?)' for _ in hashes)}) SELECT pdh FROM wanted"
        f" WHERE EXISTS (SELECT 1 FROM collections c WHERE {condition})",
        values,
    )
    return {str(row[0]) for row in rows}


async def manifests_of(tx: Transaction, hashes: Collection[str]) -> dict[str, tuple[str, int, int]]:
    """Manifest, number of files and size by hash, of any collection that has it, in the trash or not."""
    if not hashes:
        return {}
    rows = await tx.fetch(
        f"WITH wanted (pdh) AS (VALUES {', '.join('(?)' for _ in hashes)}) SELECT c.portable_data_hash,"
        " c.manifest_text, c.file_count, c.file_size_total FROM wanted JOIN collections c ON c.uuid ="
        " (SELECT f.uuid FROM collections f WHERE f.portable_data_hash = wanted.pdh LIMIT 1)",
        tuple(hashes),
    )
    return {str(row[0]): (str(row[1]), int(row[2] or 0), int(row[3] or 0)) for row in rows}


async def update_versions(tx: Transaction, uuid: str, changes: Record) -> None:
    """Change the past versions of a collection alike."""
    rows = await tx.fetch("SELECT uuid FROM collections WHERE current_version_uuid = ? AND uuid <> ?", (uuid, uuid))
    for row in rows:
        await records.update(tx, COLLECTIONS, str(row[0]), changes)
