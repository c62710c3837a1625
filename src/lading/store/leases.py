"""Leases of dispatchers: which process works with a dispatcher's token, and when it was last heard
of.

Source: docs/spec/dispatch, section Leases.
"""

from __future__ import annotations

from dataclasses import dataclass

from lading.store.database import Transaction

TABLES = (
    "CREATE TABLE IF NOT EXISTS dispatcher_leases (token_uuid TEXT PRIMARY KEY,"
    " holder TEXT NOT NULL, renewed_at TEXT NOT NULL)",
)


@dataclass(frozen=True, slots=True)
class Lease:
    """Holder of the lease of a token, and the time of its last renewal (API timestamp)."""

    holder: str
    renewed_at: str


async def take(
    tx: Transaction, token_uuid: str, holder: str, *, now: str, expired: str
) -> Lease | None:
    """Take or renew the lease of a token; None, or the lease of another holder renewed at `expired`
    or later.
    """
    rows = await tx.fetch(
        "SELECT holder, renewed_at FROM dispatcher_leases WHERE token_uuid = ?", (token_uuid,)
    )
    # Of all holders the current one may always renew; others only after the lease has expired.
    for found, renewed_at in rows:
        if found != holder and str(renewed_at) >= expired:
            return Lease(str(found), str(renewed_at))
    await tx.execute(
        "INSERT INTO dispatcher_leases (token_uuid, holder, renewed_at) VALUES (?, ?, ?)"
        " ON CONFLICT (token_uuid) DO UPDATE"
        " SET holder = excluded.holder, renewed_at = excluded.renewed_at",
        (token_uuid, holder, now),
    )
    return None


async def release(tx: Transaction, token_uuid: str, holder: str) -> None:
    """Give up the lease of a token, if this holder has it."""
    await tx.execute(
        "DELETE FROM dispatcher_leases WHERE token_uuid = ? AND holder = ?", (token_uuid, holder)
    )
