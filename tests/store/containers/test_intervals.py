"""Intervals of allocation."""

from __future__ import annotations

from lading.store.containers import intervals
from lading.store.containers.intervals import Interval
from lading.store.database import Database


async def test_intervals_begin_and_end(database: Database) -> None:
    one = Interval(request_uuid="r1", user_uuid="u1", priority=3, state="Locked", started_at="1")
    two = Interval(request_uuid="r2", user_uuid="u2", priority=5, state="Locked", started_at="2")
    async with database.writing() as tx:
        await intervals.begin_interval(tx, "c", one)
        await intervals.begin_interval(tx, "c", two)
        await intervals.end_intervals(tx, "c", "3", request_uuid="r1")
        await intervals.end_intervals(tx, "c", "4")
        await intervals.end_intervals(tx, "c", "5")
        found = await intervals.intervals_of(tx, "c")
        assert await intervals.intervals_of(tx, "other") == []
    assert [(item.request_uuid, item.ended_at) for item in found] == [("r1", "3"), ("r2", "4")]
