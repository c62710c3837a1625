"""Questions about collections that are more than a look-up by one field."""

from __future__ import annotations

from lading.store.database import Transaction
from lading.store.reaching import reaches


async def name_taken(tx: Transaction, owner_uuid: str, name: str, *, besides: str) -> bool:
    """Whether another present collection of the owner has this name."""
    # Said as the partial index says it, so that the index is used.
    rows = await tx.fetch(
        "SELECT uuid FROM collections WHERE owner_uuid = ? AND name = ?"
        " AND is_trashed = 0 AND current_version_uuid = uuid LIMIT 2",
        (owner_uuid, name),
    )
    return any(row[0] != besides for row in rows)


async def has_content(tx: Transaction, pdh: str | None, now: str, *, reader: str | None, trashed: bool) -> bool:
    """Whether a collection has this hash: anybody's, or one that a user can read; in the trash too, or not."""
    if pdh is None:
        return False
    sql, values = "SELECT 1 FROM collections WHERE portable_data_hash = ?", [pdh]
    if reader is not None:
        owned, shared = reaches("collections.owner_uuid", 1, owning=True), reaches("collections.uuid", 1)
        sql, values = f"{sql} AND (owner_uuid = ? OR {owned} OR {shared})", [*values, reader, reader, reader]
    if not trashed:
        below = "SELECT s.uuid FROM group_standing s WHERE s.trash_at <= ?"
        sql = f"{sql} AND (trash_at IS NULL OR trash_at > ?) AND owner_uuid NOT IN ({below})"
        values = [*values, now, now]
    return bool(await tx.fetch(f"{sql} LIMIT 1", values))


async def manifest_of(tx: Transaction, pdh: str) -> tuple[str, int, int] | None:
    """Manifest, number of files and size of any collection with this hash, in the trash or not."""
    rows = await tx.fetch(
        "SELECT manifest_text, file_count, file_size_total FROM collections WHERE portable_data_hash = ? LIMIT 1",
        (pdh,),
    )
    return (str(rows[0][0]), int(rows[0][1] or 0), int(rows[0][2] or 0)) if rows else None
