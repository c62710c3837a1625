"""Containers that have not ended."""

from __future__ import annotations

from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.store import records
from lading.store.containers.live import wanted_below
from lading.store.database import Database


async def test_wanted_below(database: Database) -> None:
    async with database.writing() as tx:
        await records.insert(tx, CONTAINERS, {"uuid": "child", "state": "Running"})
        await records.insert(tx, CONTAINERS, {"uuid": "done", "state": "Complete"})
        for uuid, child, state in (
            ("a", "child", "Committed"),
            ("b", "done", "Committed"),
            ("c", "child", "Final"),
        ):
            row = {
                "uuid": uuid,
                "requesting_container_uuid": "p",
                "container_uuid": child,
                "state": state,
            }
            await records.insert(tx, REQUESTS, row)
        assert await wanted_below(tx, ["p"], most=9) == ["child"]
