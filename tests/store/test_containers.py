"""Questions about containers."""

from __future__ import annotations

from lading.core.recipe import Keys
from lading.core.records import CONTAINERS, REQUESTS
from lading.store import containers, records
from lading.store.database import Database
from lading.testing.records import make_container


async def test_candidates_come_in_a_useful_order(database: Database) -> None:
    async with database.writing() as tx:
        for uuid, state, code, finished in (
            ("bad", "Complete", 1, "1"),
            ("queued", "Queued", None, None),
            ("late", "Complete", 0, "3"),
            ("early", "Complete", 0, "2"),
        ):
            row = {"uuid": uuid, "state": state, "exit_code": code, "finished_at": finished, "reuse_key": "k"}
            await records.insert(tx, CONTAINERS, row)
        found = await containers.candidates(tx, database.dialect, Keys("reuse_key", ("k", "other")))
    assert [row["uuid"] for row in found] == ["early", "late", "queued", "bad"]


async def test_earlier(database: Database) -> None:
    async with database.writing() as tx:
        for uuid in ("1", "2", "3"):
            await records.insert(tx, CONTAINERS, {"uuid": uuid, "created_at": uuid, "container_image": "i"})
        assert {row["uuid"] for row in await containers.earlier(tx, "3", "i")} == {"1", "2"}


async def test_wanted_below(database: Database) -> None:
    async with database.writing() as tx:
        await records.insert(tx, CONTAINERS, {"uuid": "child", "state": "Running"})
        await records.insert(tx, CONTAINERS, {"uuid": "done", "state": "Complete"})
        for uuid, child, state in (("a", "child", "Committed"), ("b", "done", "Committed"), ("c", "child", "Final")):
            row = {"uuid": uuid, "requesting_container_uuid": "p", "container_uuid": child, "state": state}
            await records.insert(tx, REQUESTS, row)
        assert await containers.wanted_below(tx, ["p"]) == ["child"]


async def test_older_containers_get_their_broad_keys(database: Database) -> None:
    made = make_container().to_record()
    async with database.writing() as tx:
        await records.insert(tx, CONTAINERS, {**made, "broad_key": None})
        await records.insert(tx, CONTAINERS, {"uuid": "bare"})
        await containers.fill_broad_keys(tx)
        found = await records.get(tx, CONTAINERS, str(made["uuid"]))
    assert found is not None
    assert found["broad_key"] == made["broad_key"]
