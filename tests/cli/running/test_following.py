"""What a follower does where lading run does not lead it: waiting, leaving, servers without
events.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lading.cli.running import following
from lading.cli.running.following import Follower, Watcher
from lading.client.api import ApiClient
from lading.client.outcomes import reason
from lading.client.record_events import Reconnected, RecordEvent
from lading.client.retry import NO_RETRY, Outage
from lading.client.transport import StreamedResponse
from lading.core.errors import Forbidden, Unavailable
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
            if "No machine" in text:
                follower.cancel()

        watcher = Watcher(stdout=io.BytesIO(), stderr=io.BytesIO(), say=say)
        api = ApiClient(AsgiTransport(place.app), place.admin)
        follower = Follower(api, request, watcher, patience=0.0)
        await asyncio.wait_for(follower.follow(), 60)
    assert said[-1] == (
        "No machine runs containers for this server: none has reported yet. 'lading doctor' tells "
        "on a machine what it lacks to run them."
    )


async def test_the_step_that_takes_long_is_told_with_its_time(tmp_path: Path) -> None:
    said: list[str] = []
    async with world(tmp_path) as place, asyncio.TaskGroup() as group:
        request = await place.submit("run")
        uuid = request["container_uuid"]
        api = ApiClient(AsgiTransport(place.app), place.admin)
        follower = Follower(api, request, _watcher(said), patience=600.0)
        followed = group.create_task(follower.follow())
        supervisor = await place.lock(uuid)
        status = {"container": {"runtime_status": {"activity": "unpacking its image"}}}
        await place.ok("PUT", f"containers/{uuid}", status, token=supervisor)
        await _until(lambda: said)
        await place.finish(uuid, supervisor)
        await followed
    assert said == ["unpacking its image...", "unpacking its image took a few seconds"]


async def test_a_container_that_is_kept_after_a_failure_is_told_once(tmp_path: Path) -> None:
    said: list[str] = []
    kept = "the command failed with exit code 5; its container is kept until 10:00Z: lading shell"
    async with world(tmp_path) as place, asyncio.TaskGroup() as group:
        request = await place.submit("run")
        uuid = request["container_uuid"]
        api = ApiClient(AsgiTransport(place.app), place.admin)
        followed = group.create_task(Follower(api, request, _watcher(said)).follow())
        supervisor = await place.lock(uuid)
        await place.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
        status = {"container": {"runtime_status": {"activity": kept}}}
        await place.ok("PUT", f"containers/{uuid}", status, token=supervisor)
        await _until(lambda: said)
        followed.cancel()
    assert said == [kept]


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


class Restarting(AsgiTransport):
    """A transport to a server that can be down."""

    is_down = False

    @asynccontextmanager
    async def stream(self, *arguments: Any, **options: Any) -> AsyncGenerator[StreamedResponse]:
        if self.is_down:
            raise Unavailable("no answer")
        async with super().stream(*arguments, **options) as answer:
            yield answer


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)


async def test_a_server_that_is_started_again_is_waited_for(tmp_path: Path) -> None:
    said: list[str] = []
    async with world(tmp_path) as place, asyncio.TaskGroup() as group:
        request = await place.submit("run")
        transport = Restarting(place.app)
        api = ApiClient(transport, place.admin, retry=NO_RETRY)
        follower = Follower(api, request, _watcher(said))
        transport.is_down = True
        followed = group.create_task(follower.follow())
        await _until(lambda: said)
        await place.run(request["container_uuid"], exit_code=4)
        transport.is_down = False
        outcome = await followed
    assert said == [
        "no answer; waiting for the server, the request goes on",
        "the server answers again",
    ]
    assert outcome.exit_code == 4


async def test_a_cancel_during_an_outage_is_sent_after_it(tmp_path: Path) -> None:
    said: list[str] = []
    async with world(tmp_path) as place, asyncio.TaskGroup() as group:
        request = await place.submit("run")
        transport = Restarting(place.app)
        api = ApiClient(transport, place.admin, retry=NO_RETRY)
        follower = Follower(api, request, _watcher(said))
        transport.is_down = True
        followed = group.create_task(follower.follow())
        await _until(lambda: said)
        follower.cancel()
        transport.is_down = False
        outcome = await followed
    assert outcome.request["priority"] == 0


async def test_an_outage_without_an_end_is_told(tmp_path: Path) -> None:
    async with world(tmp_path) as place:
        request = await place.submit("run")
        transport = Restarting(place.app)
        transport.is_down = True
        api = ApiClient(transport, place.admin, retry=NO_RETRY)
        follower = Follower(api, request, _watcher([]), outage=Outage(seconds=0.0))
        with pytest.raises(Unavailable, match="no answer"):
            await follower.follow()


def test_reasons_are_one_sentence() -> None:
    assert reason({"uuid": "c", "runtime_status": {"error": "c: no room."}}) == "no room"
    assert reason({"uuid": "c", "runtime_status": None}) == "it was cancelled"
