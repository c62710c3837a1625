"""What is stored of the cancellation of many requests."""

from __future__ import annotations

from dataclasses import replace

from lading.core.policy.quotas import Limit
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.schema import Record
from lading.store import cancellations, quota_waits, records
from lading.store.cancellations import Cancellation
from lading.store.containers import waiting
from lading.store.database import Database

ONE = Cancellation(
    id="1", user_uuid="u", filters=[["name", "=", "x"]], created_at="1", position=("1", "")
)


async def test_a_cancellation_is_stored_changed_and_forgotten(database: Database) -> None:
    ended = replace(ONE, id="2", total=3, cancelled=2, refused=1, finished_at="5", error="e")
    async with database.writing() as tx:
        for one in (ONE, ended):
            await cancellations.put(tx, one)
        assert [await cancellations.get(tx, id) for id in "123"] == [ONE, ended, None]
        moved = replace(ONE, position=("0", "r"), cancelled=7, holder="h", held_until="9")
        await cancellations.put(tx, moved)
        assert await cancellations.unfinished(tx) == [moved]
        await cancellations.forget(tx, before="6")
        assert await cancellations.get(tx, "2") is None


async def test_it_is_a_feature_in_use_until_it_has_ended(database: Database) -> None:
    async with database.writing() as tx:
        assert await cancellations.features_in_use(tx, "zzzzz") == set()
        await cancellations.put(tx, ONE)
        assert await cancellations.features_in_use(tx, "zzzzz") == {cancellations.IN_USE}
        await cancellations.put(tx, replace(ONE, finished_at="5"))
        assert await cancellations.features_in_use(tx, "zzzzz") == set()


async def test_containers_that_were_taken_come_in_pages(database: Database) -> None:
    states = ("Queued", "Locked", "Running", "Complete", "Running")
    async with database.writing() as tx:
        for number, state in enumerate(states):
            await records.insert(tx, CONTAINERS, {"uuid": f"c{number}", "state": state})
        assert await cancellations.taken(tx, after="", most=2) == ["c1", "c2"]
        assert await cancellations.taken(tx, after="c2", most=2) == ["c4"]


def test_one_server_at_a_time_holds_it() -> None:
    held = replace(ONE, holder="a", held_until="5")
    assert [held.is_held(holder, "4") for holder in "ab"] == [False, True]
    assert not held.is_held("b", "5")
    assert not ONE.is_held("b", "4")


async def test_what_other_requests_need(database: Database) -> None:
    async with database.writing() as tx:
        for uuid, container, state in (
            ("r1", "c1", "Committed"),
            ("r2", "c1", "Committed"),
            ("r3", "c2", "Committed"),
            ("r4", "c2", "Final"),
        ):
            row = {"uuid": uuid, "container_uuid": container, "state": state}
            await records.insert(tx, REQUESTS, row)
        dialect = database.dialect
        await waiting.watch(tx, "r3", ["r1"])
        assert await cancellations.with_dependents(tx, dialect, ["r1", "r3"]) == {"r1"}
        await cancellations.unwatch_all(tx, dialect, ["r3"])
        await cancellations.unwatch_all(tx, dialect, [])
        assert await cancellations.with_dependents(tx, dialect, ["r1", "r3"]) == set()
        wait = quota_waits.QuotaWait("r1", "c1", "u", Limit.CONTAINERS, 1)
        await quota_waits.wait(tx, wait)
        assert await cancellations.with_charges(tx, dialect, ["c1", "c2"]) == {"c1"}


async def test_containers_that_one_or_several_want(database: Database) -> None:
    async with database.writing() as tx:
        for number, container in enumerate(("c1", "c1", "c2")):
            row = {"uuid": f"r{number}", "container_uuid": container, "state": "Committed"}
            await records.insert(tx, REQUESTS, row)
        for uuid in ("c1", "c2", "c3"):
            held: Record = {"uuid": uuid, "state": "Queued", "runtime_status": {"a": uuid}}
            await records.insert(tx, CONTAINERS, held)
        found = await cancellations.containers_of(tx, database.dialect, ["c1", "c2", "c9"])
    assert {uuid: is_shared for uuid, (_, is_shared) in found.items()} == {"c1": True, "c2": False}
    assert found["c2"][0]["runtime_status"] == {"a": "c2"}
    assert (found["c2"][0]["state"], found["c2"][0]["lock_count"]) == ("Queued", 0)
