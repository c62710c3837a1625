"""The tables of what dispatchers say."""

from __future__ import annotations

from lading.core.scheduling.wait_reasons import WaitReason
from lading.store import statuses
from lading.store.database import Database


async def test_said_and_taken_back(database: Database) -> None:
    async with database.writing() as tx:
        await statuses.report(tx, "d", "2")
        await statuses.report(tx, "d", "3")
        await statuses.put(tx, "d", {"c": WaitReason("a", "A"), "e": WaitReason("b", "B")})
        await statuses.put(tx, "d", {"c": WaitReason("a", "new")})
        await statuses.take_back(tx, "d", ["e", "unknown"])
    async with database.reading() as tx:
        assert await statuses.about(tx, "c", since="3") == [WaitReason("a", "new")]
        assert await statuses.about(tx, "c", since="4") == []
        assert await statuses.about(tx, "e", since="0") == []
        assert await statuses.last_report(tx) == "3"
