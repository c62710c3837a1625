"""Leases of work that servers share, on each database."""

from __future__ import annotations

from lading.store.database import Database
from lading.store.leases import LeaseTable, WorkLease

TABLE = LeaseTable("work", "id", "phase = 'open'")
HERE, ELSEWHERE = (WorkLease(holder=name, held_until="5") for name in ("here", "elsewhere"))


async def prepare(database: Database, phase: str = "open") -> None:
    async with database.writing() as tx:
        await tx.execute(
            "CREATE TABLE IF NOT EXISTS work (id TEXT, phase TEXT, note TEXT, holder TEXT,"
            " held_until TEXT)"
        )
        await tx.execute("DELETE FROM work")
        await tx.execute("INSERT INTO work VALUES ('a', ?, '', '', '')", (phase,))


async def test_one_server_at_a_time_has_work(database: Database) -> None:
    await prepare(database)
    async with database.writing() as tx:
        assert await TABLE.take(tx, "a", HERE, now="1")
        assert not await TABLE.take(tx, "a", ELSEWHERE, now="4")
        # The server that had it ended.
        assert await TABLE.take(tx, "a", ELSEWHERE, now="5")
        assert not await TABLE.renew(tx, "a", HERE, {"note": "late"})
        assert await TABLE.renew(tx, "a", ELSEWHERE, {"note": "half"})
        assert await tx.fetch("SELECT note, held_until FROM work") == [("half", "5")]
        assert not await TABLE.take(tx, "b", HERE, now="9")


async def test_released_work_is_free_at_once(database: Database) -> None:
    await prepare(database)
    async with database.writing() as tx:
        assert await TABLE.take(tx, "a", HERE, now="1")
        await TABLE.release(tx, "a", "elsewhere")
        assert not await TABLE.take(tx, "a", ELSEWHERE, now="1")
        await TABLE.release(tx, "a", "here")
        assert await TABLE.take(tx, "a", ELSEWHERE, now="1")


async def test_rows_that_are_no_work_are_left(database: Database) -> None:
    await prepare(database, "closed")
    async with database.writing() as tx:
        assert not await TABLE.take(tx, "a", HERE, now="1")
    await prepare(database)
    async with database.writing() as tx:
        for note, is_taken in (("x", False), ("", True)):
            answer = await TABLE.take(tx, "a", HERE, now="1", condition="note = ?", values=(note,))
            assert answer is is_taken
        await tx.execute("UPDATE work SET phase = 'closed'")
        assert not await TABLE.renew(tx, "a", HERE)


def test_a_lease_ends() -> None:
    assert [HERE.is_held(holder, "4") for holder in ("here", "elsewhere")] == [False, True]
    assert not HERE.is_held("elsewhere", "5")
    assert not WorkLease().is_held("here", "")
