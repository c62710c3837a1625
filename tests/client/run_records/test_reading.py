"""Runs that are found by name, and read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.client.api import ApiClient
from lading.client.run_records import reading
from lading.core.errors import NotFound
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World, world


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[World]:
    """An API."""
    async with world(tmp_path) as served:
        yield served


async def test_a_run_by_its_name_its_uuid_and_last(it: World) -> None:
    api = ApiClient(AsgiTransport(it.app), it.admin)
    first = await reading.begin(api, "first", params={"k": 1}, session="s", source={"script": "p"})
    await reading.begin(api, "first_2")
    for text in ("first", first["uuid"], "first#1"):
        assert (await reading.find_run(api, text)).uuid == first["uuid"]
    assert (await reading.find_run(api, "last")).uuid != first["uuid"]
    assert (await reading.find_run(api, "first#1")).attempt == 1
    with pytest.raises(NotFound, match="there are first_2, first"):
        await reading.find_run(api, "irs")
    with pytest.raises(NotFound, match="lists the runs"):
        await reading.find_run(api, "none")


async def test_a_name_of_two_runs_is_that_of_the_caller(it: World) -> None:
    api = ApiClient(AsgiTransport(it.app), it.admin)
    own = await reading.begin(api, "same")
    other = ApiClient(AsgiTransport(it.app), await it.user("ada"))
    await reading.begin(other, "same")
    assert (await reading.find_run(api, "same")).uuid == own["uuid"]


async def test_lists_and_steps_go_over_pages(it: World) -> None:
    api = ApiClient(AsgiTransport(it.app), it.admin)
    for number in range(103):
        await reading.begin(api, f"run_{number:03}")
    assert len(await reading.list_runs(api, limit=102)) == 102
    assert len(await reading.list_runs(api, limit=500, name="run_")) == 103
    reference = await reading.find_run(api, "run_007")
    for number in range(5):
        await it.submit(str(number), owner_uuid=reference.uuid)
    steps = await reading.read_steps(api, reference, page=2)
    assert [step.command for step in steps] == [(str(number),) for number in range(5)]
    assert (await reading.read_run(api, reference))["counts"]["waiting"] == 5
    assert await reading.last_lines(api, steps[0], most=3) == []
    ended = await reading.end(api, reference.uuid, attempt=1, outcome="done", note="n")
    assert ended["note"] == "n"
