"""Leases of dispatchers."""

from __future__ import annotations

from lading.core.scheduling.leases import Lease
from lading.store import dispatcher_leases
from lading.store.database import Database


async def test_a_lease_is_stored_and_released(database: Database) -> None:
    first, second = Lease("a", "2", "process-1"), Lease("b", "3", "process-2")
    async with database.writing() as tx:
        assert await dispatcher_leases.lease_of(tx, "t") is None
        await dispatcher_leases.put_lease(tx, "t", first)
        assert await dispatcher_leases.lease_of(tx, "t") == first
        await dispatcher_leases.put_lease(tx, "t", second)
        await dispatcher_leases.put_lease(tx, "other", first)
        assert await dispatcher_leases.lease_of(tx, "t") == second
        await dispatcher_leases.release_lease(tx, "t")
        assert await dispatcher_leases.lease_of(tx, "t") is None
        assert await dispatcher_leases.lease_of(tx, "other") == first
