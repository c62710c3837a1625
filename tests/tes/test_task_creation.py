"""Creation of tasks, once for each Idempotency-Key."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from lading.core.errors import Unavailable
from lading.core.quantities import format_time
from lading.core.tes.document import InvalidTask
from lading.core.tes.mapping import TaskSite
from lading.tes.task_views import TaskCaller
from lading.tes.tasks import Tasks
from lading.testing.asgi import AsgiTransport
from tests.tes.site import Hurry, TaskWorld


async def test_idempotency_keys(it: TaskWorld) -> None:
    async def create(key: str, token: str | None = None) -> str:
        task = await it.task()
        if token:
            task["executors"][0]["image"] = await it.world.ensure_image(token)
        made = await it.ok("POST", "tasks", task, headers={"idempotency-key": key}, token=token)
        return str(made["id"])

    first = await create("a")
    assert await create("a") == first
    assert await create("b") != first
    assert await create("a", await it.world.user("kim")) != first
    it.world.clock.advance(90_000)
    assert await create("a") != first


async def test_an_unknown_image_is_named(it: TaskWorld) -> None:
    task = await it.task(executors=[{"image": "none:1", "command": ["a"]}])
    reply = await it.call("POST", "tasks", task)
    assert reply.status == 400
    assert reply.json["errors"][0]["pointer"] == "/executors/0/image"
    task = await it.task(inputs=[{"path": "/a", "url": f"keep:{'0' * 32}+1/x"}])
    assert (await it.call("POST", "tasks", task)).json["errors"][0]["pointer"] == ""


def another_server(it: TaskWorld) -> Tasks:
    """The operations as a second server on the same database has them."""
    transport = AsgiTransport(it.world.app)
    return Tasks(
        transport,
        it.journal,
        it.worker,
        site=TaskSite(),
        secret=b"secret",
        clock=it.world.clock,
        sleep=Hurry(),
    )


async def test_two_servers_with_one_key_make_one_task(it: TaskWorld) -> None:
    caller, task = TaskCaller(it.world.admin, legacy=False), await it.task()
    servers = [another_server(it) for _ in range(4)]
    made = await asyncio.gather(*(one.create(caller, task, key="k") for one in servers))
    assert len(set(made)) == 1
    assert len((await it.ok("GET", "tasks"))["tasks"]) == 1
    other = TaskCaller(await it.world.user("ann"), legacy=False)
    image = await it.world.ensure_image(other.token)
    theirs = {"executors": [{"image": image, "command": ["true"]}]}
    assert await servers[0].create(other, theirs, key="k") != made[0]


async def test_a_key_is_free_after_a_create_that_failed(it: TaskWorld) -> None:
    caller, server = TaskCaller(it.world.admin, legacy=False), another_server(it)
    wrong = await it.task(executors=[{"image": "none:1", "command": ["true"]}])
    with pytest.raises(InvalidTask):
        await server.create(caller, wrong, key="k")
    assert await server.create(caller, await it.task(), key="k")


async def test_a_key_that_another_server_keeps(it: TaskWorld) -> None:
    server = another_server(it)
    user = await it.world.ok("GET", "users/current")
    digest = hashlib.sha256(f"{user['uuid']} k".encode()).hexdigest()
    now = format_time(it.world.clock())
    assert await it.journal.claim_key(digest, now=now, since="0", stale="0") is None
    caller = TaskCaller(it.world.admin, legacy=False)
    with pytest.raises(Unavailable):
        await server.create(caller, await it.task(), key="k")
    # That server ended.
    it.world.clock.advance(60)
    assert await server.create(caller, await it.task(), key="k")


async def test_a_project_that_is_none(it: TaskWorld) -> None:
    reply = await it.call("POST", "tasks", await it.task(tags={"lading.project": "nope"}))
    assert (reply.status, reply.json["errors"][0]["pointer"]) == (400, "/tags/lading.project")


async def test_a_task_is_a_step_of_the_run_of_its_tag(it: TaskWorld) -> None:
    for session, attempt in (("a", 1), ("a", 1), ("b", 2)):
        tags = {"lading.run": "cohort", "lading.step": "align", "lading.session": session}
        await it.ok("POST", "tasks", await it.task(tags=tags))
        (run,) = (await it.world.ok("GET", "groups/runs"))["items"]
        assert (run["name"], run["attempt"]) == ("cohort", attempt)
    path = f"groups/{run['uuid']}/run_steps"
    items = (await it.world.ok("GET", path, params={"attempt": 1}))["items"]
    assert [item["properties"]["lading_step"] for item in items] == ["align", "align"]
    assert len((await it.ok("GET", "tasks"))["tasks"]) == 3
    reply = await it.call("POST", "tasks", await it.task(tags={"lading.run": "a/b"}))
    assert (reply.status, reply.json["errors"][0]["pointer"]) == (400, "/tags/lading.run")
