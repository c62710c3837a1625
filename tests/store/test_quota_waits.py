from __future__ import annotations

from dataclasses import replace

from lading.core.policy.quotas import Limit
from lading.store import quota_waits
from lading.store.database import Database
from lading.store.quota_waits import QuotaWait
from tests.store.test_quotas import ADA


async def test_waits(database: Database) -> None:
    first = QuotaWait("r1", "c1", ADA, Limit.VCPUS, 10)
    second = QuotaWait("r2", "c1", ADA, Limit.MONEY, 10, "2026-02-01")
    async with database.writing() as tx:
        for one in (second, replace(first, rank=3), first):
            await quota_waits.wait(tx, one)
        assert await quota_waits.first_waiting(tx, ADA) == first
        assert await quota_waits.waiting_at(tx, ADA, most=9) == [first, second]
        assert await quota_waits.waits_of(tx, ["r1", "r3"]) == {"r1": first}
        assert await quota_waits.waits_for(tx, ["c1"]) == {"r1": first, "r2": second}
        assert await quota_waits.next_due(tx) == "2026-02-01"
        assert await quota_waits.due(tx, "2026-01-31") == []
        assert await quota_waits.due(tx, "2026-02-01") == [ADA]
        await quota_waits.clear_due(tx, ADA, "2026-02-01")
        assert await quota_waits.next_due(tx) is None
        await quota_waits.unwait(tx, ["r1"])
        assert await quota_waits.unwait_container(tx, "c1") == [ADA]
        assert await quota_waits.first_waiting(tx, ADA) is None
