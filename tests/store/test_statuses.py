"""The tables of what dispatchers say."""

from __future__ import annotations

from lading.core.scheduling.wait_reasons import WaitReason
from lading.store import statuses
from lading.store.database import Database


async def test_said_and_taken_back(database: Database) -> None:
    async with database.writing() as tx:
        await statuses.note_report(tx, "d", "2")
        await statuses.note_report(tx, "d", "3")
        await statuses.put_statuses(tx, "d", {"c": WaitReason("a", "A"), "e": WaitReason("b", "B")})
        await statuses.put_statuses(tx, "d", {"c": WaitReason("a", "new")})
        await statuses.take_back_statuses(tx, "d", ["e", "unknown"])
    async with database.reading() as tx:
        assert await statuses.statuses_of(tx, "c", since="3") == [WaitReason("a", "new")]
        assert await statuses.statuses_of(tx, "c", since="4") == []
        assert await statuses.statuses_of(tx, "e", since="0") == []
        assert await statuses.last_report(tx) == "3"


async def test_a_report_without_a_document_leaves_the_last_one(database: Database) -> None:
    async with database.writing() as tx:
        assert not await statuses.put_machines(tx, "d", None, now="1")
        assert await statuses.put_machines(tx, "d", "[]", now="2")
        assert await statuses.put_machines(tx, "d", None, now="3")
    async with database.reading() as tx:
        assert await statuses.machines(tx, since="3") == [("d", "3", "[]")]
