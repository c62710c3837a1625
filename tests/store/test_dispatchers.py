"""The tables of what dispatchers say."""

from __future__ import annotations

from lading.core.scheduling.wait_reasons import WaitReason
from lading.store import waiting
from lading.store.database import Database
from lading.store.waiting import Lease


async def test_said_and_taken_back(database: Database) -> None:
    async with database.writing() as tx:
        await waiting.note_report(tx, "d", "2")
        await waiting.note_report(tx, "d", "3")
        await waiting.put_statuses(tx, "d", {"c": WaitReason("a", "A"), "e": WaitReason("b", "B")})
        await waiting.put_statuses(tx, "d", {"c": WaitReason("a", "new")})
        await waiting.take_back_statuses(tx, "d", ["e", "unknown"])
    async with database.reading() as tx:
        assert await waiting.statuses_of(tx, "c", since="3") == [WaitReason("a", "new")]
        assert await waiting.statuses_of(tx, "c", since="4") == []
        assert await waiting.statuses_of(tx, "e", since="0") == []
        assert await waiting.last_report(tx) == "3"


async def test_a_lease_is_taken_renewed_and_released(database: Database) -> None:
    async with database.writing() as tx:
        assert await waiting.take_lease(tx, "t", "a", now="2", expired="1") is None
        assert await waiting.take_lease(tx, "t", "b", now="3", expired="2") == Lease("a", "2")
        assert await waiting.take_lease(tx, "t", "a", now="4", expired="3") is None
        assert await waiting.take_lease(tx, "t", "b", now="9", expired="5") is None
        await waiting.release_lease(tx, "t", "a")
        assert await waiting.take_lease(tx, "t", "a", now="9", expired="9") == Lease("b", "9")
        await waiting.release_lease(tx, "t", "b")
        assert await waiting.take_lease(tx, "t", "a", now="9", expired="9") is None
        assert await waiting.take_lease(tx, "other", "b", now="9", expired="9") is None
