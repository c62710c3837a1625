"""What a follower does where lading run does not lead it: waiting, leaving, servers without
events.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from lading.cli.running import following
from lading.cli.running.following import Follower, Watcher
from lading.client.api import ApiClient, Reconnected, RecordEvent
from lading.client.outcomes import reason
from lading.core.errors import Forbidden
from lading.testing.asgi import AsgiTransport
from lading.testing.world import world


def _watcher(said: list[str]) -> Watcher:
    return Watcher(stdout=io.BytesIO(), stderr=io.BytesIO(), say=said.append)


async def test_why_it_waits_is_said_after_a_moment(tmp_path: Path) -> None:
    said: list[str] = []
    async with world(tmp_path) as place:
        request = await place.submit("wait")
        sentence = "It needs 8 virtual CPUs; the largest worker has 2."
        items = {request["container_uuid"]: sentence}
        await place.ok("POST", "dispatch/statuses", {"items": items}, token=place.dispatcher)

        def say(text: str) -> None:
            said.append(text)
            follower.cancel()

        watcher = Watcher(stdout=io.BytesIO(), stderr=io.BytesIO(), say=say)
        api = ApiClient(AsgiTransport(place.app), place.admin)
        follower = Follower(api, request, watcher, patience=0.0)
        outcome = await asyncio.wait_for(follower.follow(), 60)
    assert said == [sentence]
    assert outcome.request["priority"] == 0


async def test_it_is_said_that_nothing_runs_containers(tmp_path: Path) -> None:
    said: list[str] = []
    async with world(tmp_path) as place:
        request = await place.submit("wait")

        def say(text: str) -> None:
            said.append(text)
            if "dispatcher" in text:
                follower.cancel()

        watcher = Watcher(stdout=io.BytesIO(), stderr=io.BytesIO(), say=say)
        api = ApiClient(AsgiTransport(place.app), place.admin)
        follower = Follower(api, request, watcher, patience=0.0)
        await asyncio.wait_for(follower.follow(), 60)
    assert said[-1].startswith("No dispatcher is at work: none has reported yet. See 'lading doc")


async def test_without_events_the_looks_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_api: ApiClient) -> AsyncGenerator[RecordEvent | Reconnected]:
        for event in [Reconnected()]:
            yield event
        raise Forbidden

    monkeypatch.setattr(following, "events", refused)
    async with world(tmp_path) as place:
        request = await place.submit("run")
        follower = Follower(ApiClient(AsgiTransport(place.app), place.admin), request, _watcher([]))
        async with asyncio.TaskGroup() as group:
            followed = group.create_task(follower.follow())
            await place.run(request["container_uuid"], exit_code=4)
        outcome = followed.result()
    assert outcome.container is not None
    assert outcome.container["exit_code"] == 4


async def test_a_request_that_has_no_container(tmp_path: Path) -> None:
    async with world(tmp_path) as place:
        request = await place.submit("draft", state="Uncommitted")
        follower = Follower(ApiClient(AsgiTransport(place.app), place.admin), request, _watcher([]))
        follower.cancel()
        outcome = await asyncio.wait_for(follower.follow(), 60)
    assert outcome.container is None


def test_reasons_are_one_sentence() -> None:
    assert reason({"uuid": "c", "runtime_status": {"error": "c: no room."}}) == "no room"
    assert reason({"uuid": "c", "runtime_status": None}) == "it was cancelled"
