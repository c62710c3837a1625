"""Ends of runs that were told, on both databases."""

from __future__ import annotations

from lading.core.runs.run_ends import ToldEnd
from lading.store import run_ends
from lading.store.database import Database


async def test_the_last_end_of_a_run_is_kept(database: Database) -> None:
    end = ToldEnd(attempt=1, number=1, state="done", finished=2)
    async with database.writing() as tx:
        assert await run_ends.find(tx, "zzzzz-j7d0g-1") is None
        await run_ends.keep(tx, "zzzzz-j7d0g-1", end)
        later = ToldEnd(attempt=2, number=3, state="failed", finished=4)
        await run_ends.keep(tx, "zzzzz-j7d0g-1", later)
        assert await run_ends.find(tx, "zzzzz-j7d0g-1") == later
        assert await run_ends.watched(tx) == []
        assert await run_ends.sweep(tx) == 1
        assert await run_ends.find(tx, "zzzzz-j7d0g-1") is None
