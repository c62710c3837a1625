"""Rows of amounts that containers of a tool needed."""

from __future__ import annotations

from dataclasses import replace

from lading.core.containers.attempts.learned import Lesson
from lading.core.records.record_types import COLLECTIONS
from lading.core.scheduling.expected_times import Tool
from lading.store import learned, records
from lading.store.database import Database

TOOL = Tool("u", "p", "i", 10)


async def test_a_lesson_holds_for_inputs_of_its_size_and_larger_ones(database: Database) -> None:
    async with database.writing() as tx:
        await learned.keep(tx, TOOL, Lesson(1 << 40, 0.0, "a"), now="1")
        assert await learned.find(tx, TOOL) == [Lesson(1 << 40, 0.0, "a")]
        assert len(await learned.find(tx, replace(TOOL, size_class=11))) == 1
        for other in (
            replace(TOOL, size_class=9),
            replace(TOOL, user_uuid="v"),
            replace(TOOL, program="q"),
            replace(TOOL, image="j"),
        ):
            assert await learned.find(tx, other) == []


async def test_a_new_lesson_replaces_the_amounts_that_it_knows(database: Database) -> None:
    async with database.writing() as tx:
        await learned.keep(tx, TOOL, Lesson(5, 0.0, "a"), now="1")
        await learned.keep(tx, TOOL, Lesson(0, 2.5, "b"), now="2")
        assert await learned.find(tx, TOOL) == [Lesson(5, 2.5, "b")]
        await learned.keep(tx, TOOL, Lesson(4, 0.0, "c"), now="3")
        assert await learned.find(tx, TOOL) == [Lesson(4, 2.5, "c")]
        assert await learned.forget(tx, before="3") == 0
        assert await learned.forget(tx, before="4") == 1


async def test_the_size_of_inputs(database: Database) -> None:
    async with database.writing() as tx:
        for number, (pdh, size) in enumerate((("a", 5), ("a", 5), ("b", 7))):
            row = {"uuid": f"c{number}", "portable_data_hash": pdh, "file_size_total": size}
            await records.insert(tx, COLLECTIONS, row)
        assert await learned.input_size(tx, ["a", "b", "gone"]) == 12
        assert await learned.input_size(tx, []) == 0
