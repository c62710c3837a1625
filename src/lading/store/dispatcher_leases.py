"""Leases of dispatchers: a lease names the process that works with a dispatcher's token, and the
time of its last report (docs/spec/dispatch, section Leases).
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from lading.core.scheduling.leases import Lease
from lading.store.database import Transaction


async def lease_of(tx: Transaction, token_uuid: str) -> Lease | None:
    """The lease of a token, also one that has expired."""
    rows = await tx.fetch(
        "SELECT l.holder, l.renewed_at, i.id FROM dispatcher_leases l"
        " LEFT JOIN lease_ids i ON i.token_uuid = l.token_uuid WHERE l.token_uuid = ?",
        (token_uuid,),
    )
    return next((Lease(str(row[0]), str(row[1]), str(row[2] or "")) for row in rows), None)


async def put_lease(tx: Transaction, token_uuid: str, lease: Lease) -> None:
    """Store the lease of a token, in place of an earlier one."""
    await tx.execute(
        "INSERT INTO dispatcher_leases (token_uuid, holder, renewed_at) VALUES (?, ?, ?)"
        " ON CONFLICT (token_uuid) DO UPDATE"
        " SET holder = excluded.holder, renewed_at = excluded.renewed_at",
        (token_uuid, lease.holder, lease.renewed_at),
    )
    await tx.execute(
        "INSERT INTO lease_ids (token_uuid, id) VALUES (?, ?)"
        " ON CONFLICT (token_uuid) DO UPDATE SET id = excluded.id",
        (token_uuid, lease.id),
    )


async def release_lease(tx: Transaction, token_uuid: str) -> None:
    """Release the lease of a token."""
    for table in ("dispatcher_leases", "lease_ids"):
        await tx.execute(f"DELETE FROM {table} WHERE token_uuid = ?", (token_uuid,))
