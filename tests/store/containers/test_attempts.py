"""Which requests have tried which containers."""

from __future__ import annotations

from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.store import records
from lading.store.containers import attempts
from lading.store.database import Database

UUID = "zzzzz-dz642-00000000000000{}"


async def test_requests_are_found_by_the_logs_of_what_they_have_tried(database: Database) -> None:
    async with database.writing() as tx:
        for number, log in enumerate(("a", "b", "c", None)):
            await records.insert(tx, CONTAINERS, {"uuid": UUID.format(number), "log": log})
        tried = {
            "r0": (UUID.format(1), [UUID.format(0)]),
            "r1": (UUID.format(1), []),
            "r2": (None, [UUID.format(0)]),
        }
        for uuid, (present, before) in tried.items():
            row = {"uuid": uuid, "container_uuid": present, "attempted_container_uuids": before}
            await records.insert(tx, REQUESTS, row)
            await attempts.note_attempts(tx, row)
            await attempts.note_attempts(tx, row)
    async with database.writing() as tx:
        assert sorted(await attempts.requests_with_log(tx, "a")) == ["r0", "r2"]
        assert sorted(await attempts.requests_with_log(tx, "b")) == ["r0", "r1"]
        assert await attempts.requests_with_log(tx, "c") == []
        await attempts.forget_attempts(tx, "r2")
        assert await attempts.requests_with_log(tx, "a") == ["r0"]


async def test_what_was_tried_before_is_filled_in(database: Database) -> None:
    async with database.writing() as tx:
        await records.insert(tx, CONTAINERS, {"uuid": UUID.format(0), "log": "a"})
        for number in range(3):
            row = {
                "uuid": f"r{number}",
                "attempted_container_uuids": [UUID.format(0)] * (number % 2),
            }
            await records.insert(tx, REQUESTS, row)
        await attempts.fill_attempts(tx)
    async with database.writing() as tx:
        assert await attempts.requests_with_log(tx, "a") == ["r1"]
