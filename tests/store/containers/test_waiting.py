"""Requests that wait."""

from __future__ import annotations

from typing import Any

from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.store import records
from lading.store.containers import waiting
from lading.store.database import Database, Transaction


async def add(
    tx: Transaction, number: int, *, priority: int = 5, state: str = "Queued", **request: Any
) -> None:
    await records.insert(
        tx,
        CONTAINERS,
        {"uuid": f"c{number}", "state": state, "priority": priority, "created_at": "1"},
    )
    row = {
        "uuid": f"r{number}",
        "container_uuid": f"c{number}",
        "state": "Committed",
        "priority": 1,
        **request,
    }
    await records.insert(tx, REQUESTS, row)


async def test_who_waits_for_whom(database: Database) -> None:
    async with database.writing() as tx:
        await waiting.watch(tx, "b", ["a", "x", "a"])
        await waiting.watch(tx, "c", ["a"])
        assert await waiting.dependents(tx, "a") == ["b", "c"]
        assert await waiting.watching(tx, ["a", "b", "c"]) == {"b", "c"}
        assert await waiting.watching(tx, []) == set()
        await waiting.unwatch(tx, "b")
        assert await waiting.dependents(tx, "a") == ["c"]
        assert await waiting.dependents(tx, "x") == []


async def test_who_still_waits(database: Database) -> None:
    async with database.writing() as tx:
        await add(tx, 1)
        await add(tx, 2, state="Complete")
        await records.update(tx, REQUESTS, "r2", {"state": "Final"})
        await waiting.watch(tx, "one", ["r1", "r2", "gone"])
        await waiting.watch(tx, "other", ["r2", "gone"])
        assert await waiting.waits_on(tx, "one")
        assert not await waiting.waits_on(tx, "other")
        assert not await waiting.waits_on(tx, "none")


async def test_moments(database: Database) -> None:
    async with database.writing() as tx:
        assert await waiting.next_moment(tx, "2") is None
        await add(tx, 1, expires_at="2")
        await add(tx, 2, expires_at="9", start_after="1", priority=0)
        await add(tx, 3, expires_at="2", state="Complete")
        await add(tx, 4, start_after="5")
        tx_request = {"uuid": "r9", "state": "Final", "expires_at": "3"}
        await records.insert(tx, REQUESTS, tx_request)
        await records.update(tx, REQUESTS, "r2", {"priority": 0})
        assert await waiting.outdated(tx, "2") == ["c1"]
        assert await waiting.next_moment(tx, "2") == "5"
        await records.update(tx, REQUESTS, "r2", {"priority": 1})
        assert await waiting.outdated(tx, "2") == ["c1", "c2"]
        await add(tx, 5, retry_after="4", priority=0)
        assert await waiting.next_moment(tx, "2") == "4"
        assert await waiting.outdated(tx, "4") == ["c1", "c2", "c5"]


async def test_what_is_sought(database: Database) -> None:
    async with database.writing() as tx:
        await add(tx, 1, resolving=True)
        for uuid, state, sought in (
            ("a", "Committed", True),
            ("b", "Committed", False),
            ("c", "Final", True),
        ):
            await records.insert(tx, REQUESTS, {"uuid": uuid, "state": state, "resolving": sought})
        assert await waiting.resolving(tx, limit=9) == ["a"]


async def test_how_many_come_first(database: Database) -> None:
    async with database.writing() as tx:
        for number, priority in enumerate((9, 5, 5, 1, 0)):
            row = {
                "uuid": f"{number}",
                "state": "Queued",
                "priority": priority,
                "created_at": f"{number}",
            }
            await records.insert(tx, CONTAINERS, row)
        assert await waiting.ahead(tx, database.dialect, 5, "2", most=9) == 2
        assert await waiting.ahead(tx, database.dialect, 5, "2", most=1) == 1
        assert await waiting.ahead(tx, database.dialect, 9, "0", most=9) == 0


async def test_work_is_what_runs_waits_or_is_transferred(database: Database) -> None:
    async with database.writing() as tx:
        assert not await waiting.has_work(tx)
        await add(tx, 1)
        assert await waiting.has_work(tx)
        # On hold.
        await records.update(tx, REQUESTS, "r1", {"priority": 0})
        assert not await waiting.has_work(tx)
        await records.update(tx, CONTAINERS, "c1", {"state": "Running"})
        assert await waiting.has_work(tx)
        await records.update(tx, CONTAINERS, "c1", {"state": "Complete"})
        await records.update(tx, REQUESTS, "r1", {"priority": 1, "state": "Final"})
        assert not await waiting.has_work(tx)
        for phase, has_work in (("running", False), ("delivering", True)):
            await tx.execute("DELETE FROM task_transfers")
            await tx.execute(
                "INSERT INTO task_transfers VALUES (?, '', ?, '', 0, '', '', '')", (phase, phase)
            )
            assert await waiting.has_work(tx) == has_work
