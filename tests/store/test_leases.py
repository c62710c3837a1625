"""Leases of dispatchers' tokens."""

from __future__ import annotations

from lading.store import leases
from lading.store.database import Database
from lading.store.leases import Lease


async def test_a_lease_is_taken_renewed_and_released(database: Database) -> None:
    async with database.writing() as tx:
        assert await leases.take(tx, "t", "a", now="2", expired="1") is None
        assert await leases.take(tx, "t", "b", now="3", expired="2") == Lease("a", "2")
        assert await leases.take(tx, "t", "a", now="4", expired="3") is None
        assert await leases.take(tx, "t", "b", now="9", expired="5") is None
        await leases.release(tx, "t", "a")
        assert await leases.take(tx, "t", "a", now="9", expired="9") == Lease("b", "9")
        await leases.release(tx, "t", "b")
        assert await leases.take(tx, "t", "a", now="9", expired="9") is None
        assert await leases.take(tx, "other", "b", now="9", expired="9") is None
