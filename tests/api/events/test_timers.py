"""Moments: a request expires, a request may start, a container is found."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from lading.api.events import timers
from lading.api.mounts.git_cache import GIT, GitCache
from lading.core.containers.mounting.git_trees import ResolvedGitTree
from lading.core.errors import Invalid, Unavailable
from lading.core.quantities import format_time, told_time
from lading.core.records.schema import Record
from lading.testing.world import World, world

# An address (RFC 5737), so that no resolver is asked.
URL = "https://192.0.2.7/tools"
GIT_MOUNTS = {
    "/out": {"kind": "tmp"},
    "/src": {"kind": "git_tree", "repository_name": "tools", "commit": "main"},
}
TREE = (ResolvedGitTree("c" * 40, "tree", "a" * 40),)


def moment(it: World, seconds: float) -> str:
    return format_time(it.clock.moment + timedelta(seconds=seconds))


async def searched(it: World) -> int:
    """Search once: a search must not go round for as long as a repository is down."""
    async with asyncio.timeout(30):
        return await timers.seek(it.app.services)


async def container(it: World, request: Record) -> Record:
    found: Record = await it.ok("GET", f"containers/{request['container_uuid']}")
    return found


async def test_after_its_end_the_priority_of_a_request_counts_as_nothing(it: World) -> None:
    request = await it.submit(expires_at=moment(it, 60))
    supervisor = await it.lock(request["container_uuid"])
    await it.ok(
        "PUT", f"containers/{request['container_uuid']}", {"state": "Running"}, token=supervisor
    )
    upcoming = await timers.act(it.app.services)
    assert upcoming == request["expires_at"]
    assert (await container(it, request))["priority"] > 0
    it.clock.advance(60)
    assert await timers.act(it.app.services) is None
    # The dispatcher stops it for that; the request then ends with its container.
    assert (await container(it, request))["priority"] == 0
    await it.ok(
        "PUT", f"containers/{request['container_uuid']}", {"state": "Cancelled"}, token=supervisor
    )
    assert (await it.ok("GET", f"container_requests/{request['uuid']}"))["state"] == "Final"


async def test_another_request_keeps_the_container_and_a_later_end_revives_it(it: World) -> None:
    request = await it.submit(expires_at=moment(it, 60), priority=9)
    other = await it.submit(priority=1)
    it.clock.advance(60)
    await timers.act(it.app.services)
    assert 0 < (await container(it, other))["priority"] < 1 << 50
    await it.ok("PUT", f"container_requests/{request['uuid']}", {"expires_at": moment(it, 60)})
    assert (await container(it, other))["priority"] > 8 << 50
    await it.ok("PUT", f"container_requests/{request['uuid']}", {"expires_at": moment(it, -1)})
    assert (await container(it, other))["priority"] < 1 << 50


async def test_nothing_is_run_before_its_time(it: World) -> None:
    request = await it.submit(start_after=moment(it, 60))
    assert (await container(it, request))["priority"] == 0
    status = await it.ok("GET", f"container_requests/{request['uuid']}/container_status")
    assert (
        status["scheduling_status"] == f"It is to start after {told_time(request['start_after'])}."
    )
    assert await timers.act(it.app.services) == request["start_after"]
    it.clock.advance(60)
    await timers.act(it.app.services)
    assert (await container(it, request))["priority"] > 0


async def tended(it: World, condition: Callable[[], Awaitable[bool]]) -> None:
    task = asyncio.create_task(it.app.tend())
    try:
        async with asyncio.timeout(180):
            while not await condition():
                await asyncio.sleep(0)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_the_server_acts_by_itself(it: World) -> None:
    request = await it.submit(start_after=moment(it, 0.5))

    async def started() -> bool:
        return bool((await container(it, request))["priority"] > 0)

    await tended(it, started)


class SlowGit:
    """Answers when it is told to."""

    def __init__(self, answer: tuple[ResolvedGitTree, ...] | Exception = TREE) -> None:
        self.answer = answer
        self.ready = False

    async def find(
        self, url: str, wanted: object, *, patience: float, addresses: Sequence[str] = ()
    ) -> tuple[ResolvedGitTree, ...] | None:
        if not self.ready:
            return None
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        """Nothing to give up."""


async def slow_world(it: World, git: SlowGit, *, url: str = URL) -> Record:
    it.app.services.features[GIT] = cast(GitCache, git)
    await it.ok("POST", "repositories", {"name": "tools", "fetch_url": url})
    spec = await it.spec("make", mounts=GIT_MOUNTS)
    made = await it.request("POST", "container_requests", spec, params={"satisfy": True})
    assert (made.status, made.json["state"], made.json["container_uuid"]) == (
        202,
        "Committed",
        None,
    )
    return dict(made.json)


async def test_a_token_of_limited_scopes_leaves_nothing_to_the_server(it: World) -> None:
    it.app.services.features[GIT] = cast(GitCache, SlowGit())
    known = await it.ok("POST", "repositories", {"name": "tools", "fetch_url": URL})
    spec = await it.spec("make", mounts=GIT_MOUNTS)
    scopes = [
        "POST /arvados/v1/container_requests",
        f"GET /arvados/v1/repositories/{known['uuid']}",
    ]
    for some, status in ((scopes[:1], 403), (scopes, 503)):
        made = await it.ok("POST", "api_client_authorizations", {"scopes": some})
        reply = await it.request("POST", "container_requests", spec, token=made["api_token"])
        assert (reply.status, "scopes" in reply.error) == (status, True)
    assert (await it.ok("GET", "container_requests"))["items"] == []


async def test_a_container_that_is_sought_is_found_later(it: World) -> None:
    git = SlowGit()
    request = await slow_world(it, git)
    path = f"container_requests/{request['uuid']}"
    assert (await it.request("POST", f"{path}/satisfy")).status == 202
    why = await it.ok("GET", f"{path}/why")
    assert [one["reason"] for one in why["waits"]] == ["resolving"]
    assert "still sought" in (await it.ok("GET", f"{path}/container_status"))["scheduling_status"]
    assert await searched(it) == 1
    git.ready = True
    assert await searched(it) == 0
    found = await it.request("POST", f"{path}/satisfy")
    assert (found.status, (await container(it, found.json))["priority"] > 0) == (200, True)
    assert (await container(it, found.json))["mounts"]["/src"] == {
        "kind": "git_tree",
        "tree": "a" * 40,
    }
    assert await searched(it) == 0


async def test_one_search_finds_the_containers_of_all(it: World) -> None:
    git = SlowGit()
    requests = [await slow_world(it, git)]
    for number in range(44):
        spec = await it.spec("make", mounts=GIT_MOUNTS, environment={"N": str(number)})
        made = await it.request("POST", "container_requests", spec, params={"satisfy": True})
        requests.append(dict(made.json))
    # What still waits does not hide the others.
    assert await searched(it) == 45
    git.ready = True
    assert await searched(it) == 0
    for one in requests:
        found = await it.ok("GET", f"container_requests/{one['uuid']}")
        assert found["container_uuid"] is not None


class _MeetingGit(SlowGit):
    """Answers a search when another one has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.searches = 0
        self.met = asyncio.Event()

    async def find(
        self, url: str, wanted: object, *, patience: float, addresses: Sequence[str] = ()
    ) -> tuple[ResolvedGitTree, ...] | None:
        if self.ready:
            self.searches += 1
            if self.searches == 2:
                self.met.set()
            await self.met.wait()
        return await super().find(url, wanted, patience=patience)


async def test_a_server_that_hangs_does_not_delay_the_others(it: World) -> None:
    git = _MeetingGit()
    await slow_world(it, git)
    spec = await it.spec("make", mounts=GIT_MOUNTS, environment={"N": "2"})
    await it.request("POST", "container_requests", spec, params={"satisfy": True})
    git.ready = True
    assert await searched(it) == 0


async def test_a_name_that_no_resolver_takes_is_refused_for_good(it: World) -> None:
    it.app.services.features[GIT] = cast(GitCache, SlowGit())
    # A label of a name has at most 63 characters (RFC 1035).
    url = f"https://{'a' * 64}.example/tools"
    await it.ok("POST", "repositories", {"name": "tools", "fetch_url": url})
    spec = await it.spec("make", mounts=GIT_MOUNTS)
    reply = await it.request("POST", "container_requests", spec, params={"satisfy": True})
    assert (reply.status, "is no name of a host" in reply.error) == (422, True)


async def test_a_container_that_cannot_be_found_ends_the_request_with_the_reason(it: World) -> None:
    git = SlowGit(Invalid("Mounts [/src][commit]: no commit 'main'"))
    request = await slow_world(it, git)
    git.ready = True
    await searched(it)
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert (why["state"], why["outcome"]) == ("Final", "Mounts [/src][commit]: no commit 'main'")


async def test_an_input_that_went_meanwhile_ends_the_request(it: World) -> None:
    git = SlowGit()
    data = await it.collection({"a": b"x"})
    it.app.services.features[GIT] = cast(GitCache, git)
    await it.ok("POST", "repositories", {"name": "tools", "fetch_url": URL})
    mounts = {**GIT_MOUNTS, "/in": {"kind": "collection", "uuid": data["uuid"]}}
    request = await it.submit("make", mounts=mounts)
    await it.ok("DELETE", f"collections/{data['uuid']}")
    git.ready = True
    await searched(it)
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert (why["state"], "not found" in why["outcome"]) == ("Final", True)


async def test_a_repository_that_is_down_is_tried_again(it: World) -> None:
    git = SlowGit(Unavailable("git fetch failed"))
    request = await slow_world(it, git)
    git.ready = True
    assert await searched(it) == 1
    git.answer = TREE
    await tended(it, lambda: _has_container(it, request))


async def _has_container(it: World, request: Record) -> bool:
    return bool((await it.ok("GET", f"container_requests/{request['uuid']}"))["container_uuid"])


async def test_who_cancels_meanwhile_is_heard(it: World) -> None:
    git = SlowGit()
    request = await slow_world(it, git)
    assert (await it.ok("POST", f"container_requests/{request['uuid']}/cancel"))["state"] == "Final"
    git.ready = True
    assert await searched(it) == 0


@pytest.mark.parametrize("name", ["act", "seek"])
async def test_the_tasks_go_on_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    calls, done = [], asyncio.Event()
    monkeypatch.setattr(timers, "LONGEST", 0.001)

    async def failing(services: Any) -> None:
        calls.append(services)
        if len(calls) > 1:
            done.set()
        raise Unavailable("no")

    monkeypatch.setattr(timers, name, failing)
    async with world(tmp_path) as it:
        task = asyncio.create_task(it.app.tend())
        await done.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
