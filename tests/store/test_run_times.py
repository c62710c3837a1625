"""Rows of run times and of expected starts."""

from __future__ import annotations

from dataclasses import replace

from lading.core.records.container_types import CONTAINERS
from lading.core.scheduling.expected_times import Tool
from lading.store import records, run_times
from lading.store.database import Database
from lading.store.run_times import ExpectedStart

TOOL = Tool("u", "p", "i", 10)


async def test_the_latest_times_of_a_tool(database: Database) -> None:
    async with database.writing() as tx:
        assert await run_times.find(tx, TOOL) == []
        for number in range(40):
            await run_times.keep(tx, TOOL, number + 0.25, now=f"{number:02}")
        assert await run_times.find(tx, TOOL) == [number + 0.25 for number in range(39, 7, -1)]
        await run_times.keep(tx, TOOL, 1e12, now="41")
        assert max(await run_times.find(tx, TOOL)) < 1e8


async def test_inputs_of_the_nearest_size_count(database: Database) -> None:
    async with database.writing() as tx:
        for size in (5, 9, 20):
            await run_times.keep(tx, replace(TOOL, size_class=size), float(size), now="1")
        assert await run_times.find(tx, TOOL) == [9.0]
        assert await run_times.find(tx, replace(TOOL, size_class=30)) == [20.0]
        assert await run_times.find(tx, replace(TOOL, user_uuid="v")) == []
        found = await run_times.find_all(tx, {("u", "p"), ("v", "p")})
        assert {tool: sorted(times) for tool, times in found.items()} == {
            ("u", "p"): [5.0, 9.0, 20.0]
        }
        assert await run_times.find_all(tx, set()) == {}
        assert await run_times.forget(tx, before="1") == 0
        assert await run_times.forget(tx, before="2") == 3


async def test_the_first_expectation_counts_and_is_taken_once(database: Database) -> None:
    async with database.writing() as tx:
        await run_times.note_starts(
            tx, [ExpectedStart("a", "1", 5.0), ExpectedStart("a", "2", 9.0)]
        )
        assert await run_times.are_expected(tx, ["b", "a"])
        assert await run_times.take_starts(tx, ["a", "b"]) == [(ExpectedStart("a", "1", 5.0), "")]
        assert not await run_times.are_expected(tx, ["a"])
        assert await run_times.take_starts(tx, ["a"]) == []


async def test_the_errors_of_the_latest_hundred(database: Database) -> None:
    async with database.writing() as tx:
        assert await run_times.errors(tx) == []
        for number in range(30):
            await run_times.keep_errors(tx, [number / 100, 0.5, 0.25, 1.0])
        await run_times.keep_errors(tx, [])
        found = await run_times.errors(tx)
        assert len(found) == 100
        assert found[:4] == [0.29, 0.5, 0.25, 1.0]


async def test_the_queue_before_a_place(database: Database) -> None:
    made = (("a", 1, "1", "Queued"), ("b", 2, "3", "Queued"), ("c", 2, "2", "Queued"),
            ("d", 2, "1", "Running"), ("e", 2, "4", "Queued"))  # fmt: skip
    async with database.writing() as tx:
        for uuid, priority, created_at, state in made:
            row = {"uuid": uuid, "priority": priority, "created_at": created_at, "state": state}
            await records.insert(tx, CONTAINERS, row)
        assert [one["uuid"] for one in await run_times.waiting_before(tx, 2, "4")] == ["c", "b"]
        found = await run_times.waiting_before(tx, 1, "2")
        assert [one["uuid"] for one in found] == ["c", "b", "e", "a"]
        assert [one["uuid"] for one in await run_times.running(tx)] == ["d"]
