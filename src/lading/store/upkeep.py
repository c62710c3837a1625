"""What is written now and then: when tokens were used; and rows of the trail that are old enough to go."""

from __future__ import annotations

from collections.abc import Mapping

from lading.store.database import Transaction


async def mark_used(tx: Transaction, uses: Mapping[str, tuple[str, str]]) -> int:
    """Write down when, and from which address, tokens were last used; how many of them there still are."""
    marked = 0
    for uuid, (moment, address) in uses.items():
        marked += await tx.execute(
            "UPDATE api_client_authorizations SET last_used_at = ?, last_used_by_ip_address = ?"
            " WHERE uuid = ? AND (last_used_at IS NULL OR last_used_at < ?)",
            (moment, address or None, uuid, moment),
        )
    return marked


async def prune_logs(tx: Transaction, *, after: int, before: str, limit: int) -> tuple[int, int, bool]:
    """Delete rows of the trail made before a time, looking at `limit` of them that follow number `after`.

    How a request was resolved, and why it ended, is kept as long as the request is. Number of the last row that was old
    enough, how many were deleted, and whether there may be more.
    """
    rows = await tx.fetch("SELECT id, created_at FROM logs WHERE id > ? ORDER BY id LIMIT ?", (after, limit))
    old = [int(row[0] or 0) for row in rows if str(row[1]) < before]
    if not old:
        return after, 0, False
    deleted = await tx.execute(
        "DELETE FROM logs WHERE id > ? AND id <= ? AND created_at < ? AND NOT (event_type IN ('resolve', 'end')"
        " AND EXISTS (SELECT 1 FROM container_requests r WHERE r.uuid = logs.object_uuid))",
        (after, old[-1], before),
    )
    return old[-1], deleted, len(old) == limit
