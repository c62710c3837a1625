"""Polls of `arvados-cwl-runner`: held while none of its requests has ended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lading.testing.world import World, world

# As `arvados_cwl/executor.py` has them.
SELECT = (
    "uuid", "container_uuid", "state", "log_uuid", "output_uuid", "modified_at", "properties",
    "runtime_constraints", "priority",
)  # fmt: skip
LONG = {"MaxPollHold": 60.0}


async def poll(it: World, *uuids: str, **more: Any) -> Any:
    """The answer of a poll."""
    params = {"filters": [["uuid", "in", list(uuids)]], "select": list(SELECT), **more}
    return await it.ok("GET", "container_requests", params=params)


async def held(it: World, *uuids: str) -> asyncio.Task[Any]:
    """A poll that the server holds now."""
    task = asyncio.create_task(poll(it, *uuids))
    while not it.app.services.events.bus.waits:
        assert not task.done()
        await asyncio.sleep(0)
    return task


def states(answer: Any) -> list[str]:
    return [row["state"] for row in answer["items"]]


async def test_a_poll_is_answered_when_a_request_ends(tmp_path: Path) -> None:
    async with world(tmp_path, API=LONG) as it:
        one, other = await it.submit(), await it.submit(command=["other"])
        task = await held(it, one["uuid"], other["uuid"])
        await it.run(one["container_uuid"])
        assert sorted(states(await task)) == ["Committed", "Final"]
        assert it.app.services.events.bus.waits == 0


async def test_a_poll_is_answered_when_a_request_is_cancelled(tmp_path: Path) -> None:
    async with world(tmp_path, API=LONG) as it:
        one = await it.submit()
        task = await held(it, one["uuid"])
        await it.ok("PUT", f"container_requests/{one['uuid']}", {"priority": 0})
        assert [row["priority"] for row in (await task)["items"]] == [0]


async def test_an_end_from_before_is_told_at_once(tmp_path: Path) -> None:
    async with world(tmp_path, API=LONG) as it:
        one, other = await it.submit(), await it.submit(command=["other"])
        await it.run(one["container_uuid"])
        assert sorted(states(await poll(it, one["uuid"], other["uuid"]))) == [
            "Committed",
            "Final",
        ]


async def test_other_changes_and_other_requests_wake_nobody(tmp_path: Path) -> None:
    async with world(tmp_path, API={"MaxPollHold": 0.3}) as it:
        one, other = await it.submit(), await it.submit(command=["other"])
        task = await held(it, one["uuid"])
        await it.run(other["container_uuid"])
        await it.ok("PUT", f"container_requests/{one['uuid']}", {"name": "renamed"})
        assert states(await task) == ["Committed"]


async def test_a_held_poll_ends_after_its_time(tmp_path: Path) -> None:
    async with world(tmp_path, API={"MaxPollHold": 0.01}) as it:
        one = await it.submit()
        assert states(await poll(it, one["uuid"])) == ["Committed"]


async def test_a_server_that_ends_holds_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, API=LONG) as it:
        one = await it.submit()
        task = await held(it, one["uuid"])
        it.app.services.events.bus.end_waits()
        assert states(await task) == ["Committed"]
        assert states(await poll(it, one["uuid"])) == ["Committed"]


@pytest.mark.parametrize(
    "more",
    [
        {"select": ["uuid", "state"]},
        {"filters": [["state", "=", "Committed"]]},
        {"offset": 1},
    ],
)
async def test_no_other_list_is_held(tmp_path: Path, more: dict[str, Any]) -> None:
    async with world(tmp_path, API=LONG) as it:
        one = await it.submit()
        async with asyncio.timeout(20):
            await poll(it, one["uuid"], **more)


async def test_zero_holds_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, API={"MaxPollHold": 0}) as it:
        one = await it.submit()
        async with asyncio.timeout(20):
            assert states(await poll(it, one["uuid"])) == ["Committed"]
