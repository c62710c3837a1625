"""Questions about containers."""

from __future__ import annotations

from lading.core.containers.recipe import ReuseKey
from lading.core.records.permissions import Requested
from lading.core.records.record_types import COLLECTIONS, CONTAINERS, REQUESTS
from lading.store import containers, permissions, records
from lading.store.database import Database
from tests.records import make_container


async def test_candidates_come_in_a_useful_order(database: Database) -> None:
    async with database.writing() as tx:
        for uuid, state, code, finished in (
            ("bad", "Complete", 1, "1"),
            ("queued", "Queued", None, None),
            ("late", "Complete", 0, "3"),
            ("early", "Complete", 0, "2"),
        ):
            row = {
                "uuid": uuid,
                "state": state,
                "exit_code": code,
                "finished_at": finished,
                "log": uuid,
                "output": uuid,
            }
            await records.insert(tx, CONTAINERS, {**row, "broad_key": "b", "reuse_key": "k"})
        for uuid, trash_at in (("early", None), ("late", "9"), ("bad", "5")):
            row = {
                "uuid": uuid,
                "portable_data_hash": uuid,
                "trash_at": trash_at,
                "owner_uuid": "u",
            }
            await records.insert(tx, COLLECTIONS, row)
        await records.insert(
            tx, CONTAINERS, {"uuid": "other size", "broad_key": "b", "reuse_key": "l"}
        )
        found = await containers.candidates(
            tx, database.dialect, [ReuseKey("b", "k"), ReuseKey("b", "other")], now="5"
        )
        any_size = await containers.candidates(tx, database.dialect, [ReuseKey("b", None)], now="5")
    assert [one.record["uuid"] for one in found] == ["early", "late", "queued", "bad"]
    assert (
        [one.log_present for one in found]
        == [one.output_present for one in found]
        == [True, True, False, False]
    )
    assert {one.record["uuid"] for one in any_size} == {
        "early",
        "late",
        "queued",
        "bad",
        "other size",
    }


async def test_earlier(database: Database) -> None:
    async with database.writing() as tx:
        for uuid, image in (("1", "i"), ("2", "i"), ("3", "i"), ("0", "other"), ("4", "other")):
            await records.insert(
                tx, CONTAINERS, {"uuid": uuid, "created_at": uuid, "container_image": image}
            )
        found = await containers.earlier(tx, database.dialect, "3", "i", ())
    assert {row["uuid"] for row in found} == {"1", "2"}


async def test_earlier_containers_that_the_reader_can_read(database: Database) -> None:
    async with database.writing() as tx:
        await permissions.add_user(tx, "me")
        for uuid, owner in (("1", "me"), ("2", "somebody else"), ("3", "me")):
            row = {"uuid": uuid, "created_at": uuid, "container_image": "i"}
            await records.insert(tx, CONTAINERS, row)
            request = {"uuid": f"r{uuid}", "container_uuid": uuid, "owner_uuid": owner}
            await records.insert(tx, REQUESTS, request)
        readable = [Requested("me", "9")]
        found = await containers.earlier(tx, database.dialect, "9", "i", readable)
    assert {row["uuid"] for row in found} == {"1", "3"}


async def test_the_readers_of_the_latest_containers_alone_are_examined(database: Database) -> None:
    async with database.writing() as tx:
        await permissions.add_user(tx, "me")
        for number in range(containers.WINDOW + 1):
            row = {"uuid": str(number), "created_at": f"{number:03d}", "container_image": "i"}
            await records.insert(tx, CONTAINERS, row)
        for uuid in ("0", "1"):
            request = {"uuid": f"r{uuid}", "container_uuid": uuid, "owner_uuid": "me"}
            await records.insert(tx, REQUESTS, request)
        readable = [Requested("me", "9")]
        found = await containers.earlier(tx, database.dialect, "9", "i", readable)
    assert [row["uuid"] for row in found] == ["1"]


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
