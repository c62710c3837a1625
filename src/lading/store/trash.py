"""The sweep: records due for the trash, and records due for deletion."""

# ruff: noqa: S608 - names are constants, values go into placeholders

from __future__ import annotations

from lading.store.attempts import WANTED_LOG
from lading.store.database import Transaction


async def sweep(tx: Transaction, *, now: str, tokens_before: str) -> tuple[int, int, int]:
    """Mark trashed collections, delete collections past `delete_at` and tokens that expired before
    `tokens_before`.

    Returns the number of each. A log stays in the trash while a request has or had its container.
    """
    # Marks only: `trash_at` decides about visibility, and the mark serves the indexes.
    marked = await tx.execute(
        "UPDATE collections SET is_trashed = 1 WHERE is_trashed = 0 AND trash_at <= ?", (now,)
    )
    await tx.execute(
        "UPDATE groups SET is_trashed = 1 WHERE is_trashed = 0 AND trash_at <= ?", (now,)
    )
    await tx.execute(
        "DELETE FROM links WHERE link_class = 'permission'"
        " AND head_uuid IN (SELECT uuid FROM collections WHERE delete_at <= ?)",
        (now,),
    )
    await tx.execute(
        "DELETE FROM grants"
        " WHERE target_uuid IN (SELECT uuid FROM collections WHERE delete_at <= ?)",
        (now,),
    )
    deleted = await tx.execute(
        f"DELETE FROM collections WHERE delete_at <= ? AND NOT ({WANTED_LOG})",
        (now, now),
    )
    ended = await tx.execute(
        "DELETE FROM api_client_authorizations WHERE expires_at <= ?", (tokens_before,)
    )
    return marked, deleted, ended


async def due_groups(tx: Transaction, now: str) -> list[str]:
    """Groups whose trash time has come and that are not marked yet."""
    rows = await tx.fetch("SELECT uuid FROM groups WHERE is_trashed = 0 AND trash_at <= ?", (now,))
    return [str(row[0]) for row in rows]


async def expired_groups(tx: Transaction, now: str) -> list[str]:
    """Groups whose deletion time has come."""
    return [
        str(row[0])
        for row in await tx.fetch("SELECT uuid FROM groups WHERE delete_at <= ?", (now,))
    ]
