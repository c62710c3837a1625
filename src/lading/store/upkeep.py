"""Periodic writes: last use of tokens, deletion of old log rows, and the sweep of the trash; and
the former owners in log rows of earlier releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

# ruff: noqa: S608 - names are constants, values go into placeholders
from lading.store.containers.attempts import WANTED_LOG
from lading.store.database import Transaction

# Log rows that are read at a time.
_PAGE: Final = 1000


async def mark_used(tx: Transaction, uses: Mapping[str, tuple[str, str]]) -> int:
    """Store time and address of the last use of tokens; return how many of the tokens still
    exist.
    """
    marked = 0
    for uuid, (moment, address) in uses.items():
        marked += await tx.execute(
            "UPDATE api_client_authorizations SET last_used_at = ?, last_used_by_ip_address = ?"
            " WHERE uuid = ? AND (last_used_at IS NULL OR last_used_at < ?)",
            (moment, address or None, uuid, moment),
        )
    return marked


async def prune_logs(
    tx: Transaction, *, after: int, before: str, limit: int
) -> tuple[int, int, bool]:
    """Delete log rows made before a time, among the `limit` rows after number `after`.

    Rows about the resolution and the end of a request stay as long as the request. Returns the
    number of the last old row, the count of deleted rows, and whether more may follow.
    """
    rows = await tx.fetch(
        "SELECT id, created_at FROM logs WHERE id > ? ORDER BY id LIMIT ?", (after, limit)
    )
    # Numbers and times ascend together, so the first young row ends the range.
    old = [int(row[0] or 0) for row in rows if str(row[1]) < before]
    if not old:
        return after, 0, False
    deleted = await tx.execute(
        "DELETE FROM logs WHERE id > ? AND id <= ? AND created_at < ?"
        " AND NOT (event_type IN ('resolve', 'end')"
        " AND EXISTS (SELECT 1 FROM container_requests r WHERE r.uuid = logs.object_uuid))",
        (after, old[-1], before),
    )
    return old[-1], deleted, len(old) == limit


class _Side(msgspec.Struct, frozen=True):
    owner_uuid: str | None = None


class _Change(msgspec.Struct, frozen=True):
    """The part of the properties of a log row that tells of a move."""

    old_attributes: _Side = _Side()
    new_attributes: _Side = _Side()


async def fill_former_owners(tx: Transaction) -> None:
    """Migration: store the former owners of moved records in the log rows of their moves."""
    last = 0
    while True:
        rows = await tx.fetch(
            "SELECT id, properties FROM logs WHERE id > ? AND event_type = 'update'"
            " ORDER BY id LIMIT ?",
            (last, _PAGE),
        )
        if not rows:
            return
        for number, properties in rows:
            change = msgspec.json.decode(str(properties), type=_Change)
            former, present = change.old_attributes.owner_uuid, change.new_attributes.owner_uuid
            if former and former != present:
                await tx.execute(
                    "UPDATE logs SET former_owner_uuid = ? WHERE id = ?", (former, number)
                )
        last = int(rows[-1][0] or 0)


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
