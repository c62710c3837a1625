"""Stored transfers of tasks, on each database."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.tes.transfers import DeliveredFile, EndedTask, TaskTransfer, TransferPhase
from lading.store import records
from lading.store.database import Database
from lading.store.transfers import StoredTransfers

FETCHING, RUNNING = TransferPhase.FETCHING, TransferPhase.RUNNING
DELIVERING, DONE = TransferPhase.DELIVERING, TransferPhase.DONE


def transfer(uuid: str, phase: TransferPhase = FETCHING, **more: Any) -> TaskTransfer:
    return TaskTransfer(request_uuid=uuid, user_uuid="u", phase=phase, **more)


@pytest.fixture
def journal(database: Database) -> StoredTransfers:
    return StoredTransfers(database)


async def take(journal: StoredTransfers, holder: str, now: str, most: int = 9) -> list[str]:
    waiting = [one.request_uuid for one in await journal.waiting(now=now, most=most)]
    taken = await journal.take(waiting, holder=holder, now=now, until=now + "+")
    return [one.request_uuid for one in taken]


async def test_work_is_taken_by_one_holder(journal: StoredTransfers) -> None:
    for uuid in "abc":
        await journal.add(transfer(uuid, task={"inputs": [uuid]}, request={"cwd": "."}))
    await journal.add(transfer("d", RUNNING))
    await journal.add(transfer("a", DONE))
    assert await take(journal, "one", "1", most=2) == ["a", "b"]
    assert await take(journal, "two", "1") == ["c"]
    assert await take(journal, "two", "1") == []
    # The first holder ended.
    assert await take(journal, "two", "2") == ["a", "b", "c"]
    [found] = (await journal.read(["a"])).values()
    assert (found.task, found.phase) == ({}, FETCHING)
    [held] = await journal.take(["a", "d"], holder="x", now="9", until="9")
    assert (held.task, held.request) == ({"inputs": ["a"]}, {"cwd": "."})


async def test_each_user_waits_with_the_first_of_its_transfers(journal: StoredTransfers) -> None:
    for uuid, user in (("a", "u"), ("b", "u"), ("c", "u"), ("d", "v")):
        await journal.add(replace(transfer(uuid), user_uuid=user))
    found = await journal.waiting(now="1", most=2)
    assert [(one.request_uuid, one.user_uuid) for one in found] == [
        ("a", "u"),
        ("b", "u"),
        ("d", "v"),
    ]
    # Another server was faster.
    assert len(await journal.take(["a"], holder="one", now="1", until="5")) == 1
    assert await journal.take(["a"], holder="two", now="1", until="5") == []


async def test_a_hold_is_renewed_until_the_work_ends(journal: StoredTransfers) -> None:
    await journal.add(transfer("a"))
    assert await take(journal, "one", "1") == ["a"]
    assert await journal.renew("a", holder="one", until="5", note="half")
    assert not await journal.renew("a", holder="two", until="5", note="")
    assert await take(journal, "two", "4") == []
    assert await journal.move("a", [FETCHING], FETCHING, note="again", failures=2, held_until="7")
    assert await take(journal, "two", "6") == []
    assert await take(journal, "two", "7") == ["a"]
    assert await journal.move("a", [FETCHING], TransferPhase.CANCELLED)
    assert not await journal.move("a", [FETCHING], DONE)
    assert not await journal.renew("a", holder="two", until="9", note="")
    assert await journal.read([]) == {}


async def test_phases(journal: StoredTransfers) -> None:
    for uuid in "abc":
        await journal.add(transfer(uuid, DELIVERING))
    found = await journal.in_phase(DELIVERING, most=2)
    assert [one.request_uuid for one in found] == ["c", "b"]


async def test_tasks_that_have_ended(database: Database, journal: StoredTransfers) -> None:
    async with database.writing() as tx:
        await records.insert(tx, CONTAINERS, {"uuid": "c1", "state": "Complete", "created_at": "1"})
        for uuid, state, container in (("r1", "Final", "c1"), ("r2", "Committed", "c1"),
                                       ("r3", "Final", None)):  # fmt: skip
            row = {"uuid": uuid, "state": state, "container_uuid": container, "output_uuid": "o"}
            await records.insert(tx, REQUESTS, row)
    for uuid in ("r1", "r2", "r3", "gone"):
        await journal.add(transfer(uuid, RUNNING))
    found = {one.request_uuid: one for one in await journal.ended(most=9)}
    assert found == {
        "r1": EndedTask(request_uuid="r1", container_state="Complete", output_uuid="o"),
        "r3": EndedTask(request_uuid="r3", output_uuid="o"),
        "gone": EndedTask(request_uuid="gone", is_deleted=True),
    }


async def test_what_has_ended_is_made_small_and_swept(
    database: Database, journal: StoredTransfers
) -> None:
    async with database.writing() as tx:
        await records.insert(tx, REQUESTS, {"uuid": "a", "state": "Final"})
    for uuid in ("a", "gone"):
        await journal.add(transfer(uuid, task={"name": "n"}))
        await journal.note_delivery(uuid, DeliveredFile(url="u", size=1))
        assert await journal.move(uuid, [FETCHING], DONE)
    await journal.add(transfer("working"))
    assert await journal.sweep() == 1
    assert set(await journal.read(["a", "gone", "working"])) == {"a", "working"}
    assert (len(await journal.deliveries("a")), await journal.deliveries("gone")) == (1, [])
    assert await journal.move("a", [DONE], FETCHING)
    [found] = await journal.take(["a"], holder="x", now="1", until="2")
    assert found.task == {}


async def test_deliveries(journal: StoredTransfers) -> None:
    for checksum in ("x", "y"):
        await journal.note_delivery("a", DeliveredFile(url="u", size=1 << 40, checksum=checksum))
    assert await journal.deliveries("a") == [DeliveredFile(url="u", size=1 << 40, checksum="y")]
    assert await journal.deliveries("b") == []


async def test_keys(journal: StoredTransfers) -> None:
    async def claim(now: str) -> str | None:
        return await journal.claim_key("k", now=now, since=str(int(now) - 9), stale="1")

    assert await claim("2") is None
    assert await claim("2") == ""
    await journal.settle_key("k", "task")
    assert await claim("2") == "task"
    # It is forgotten after a day.
    assert await claim("11") is None
    await journal.settle_key("k", "")
    assert await claim("11") is None
    # The server that claimed it ended.
    assert await journal.claim_key("k", now="12", since="0", stale="11") is None
