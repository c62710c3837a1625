"""Periodic writes: last use of tokens, and deletion of old log rows."""

from __future__ import annotations

from collections.abc import Mapping

from lading.store.database import Transaction


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
