"""The worker on transfers: its turns, its holds, cancels, faults of the server itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lading.client.retry import NO_RETRY
from lading.core.errors import Unavailable
from lading.core.tes.transfers import TransferPhase
from lading.tes.transfers.worker import TransferSite, TransferWorker
from lading.testing.asgi import AsgiTransport
from tests.tes.outside import MeanServer
from tests.tes.site import TaskWorld, WithBlocks


async def phase(it: TaskWorld, task: str) -> TransferPhase:
    return (await it.journal.read([task]))[task].phase


async def logs(it: TaskWorld, task: str) -> list[str]:
    found = await it.ok("GET", f"tasks/{task}", query="view=FULL")
    return list(found["logs"][-1]["system_logs"])


def worker(it: TaskWorld, app: Any = None) -> TransferWorker:
    """A worker that sends its calls to another application."""
    token = it.world.config.SystemRootToken
    site = TransferSite(root_token=token, system_user="x", retry=NO_RETRY)
    transport = AsgiTransport(app or WithBlocks(it.world))
    return TransferWorker(transport, it.journal, site, clock=it.world.clock)


@asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """The URL of a server that takes connections and never answers."""
    ended = asyncio.Event()

    async def wait(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(wait, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    ended.set()
    server.close()


async def test_cancel_before_inputs_are_there(it: TaskWorld, server: MeanServer) -> None:
    task = await it.create(inputs=[{"path": "/in/a", "url": server.add("/a", b"x")}])
    await it.ok("POST", f"tasks/{task}:cancel")
    assert await it.state(task) == "CANCELED"
    await it.transfer()
    request = await it.world.ok("GET", f"container_requests/{task}")
    assert (request["state"], server.seen) == ("Uncommitted", [])
    assert [
        one["id"] for one in (await it.ok("GET", "tasks", query="state=CANCELED"))["tasks"]
    ] == [task]


async def test_a_draft_that_others_changed(it: TaskWorld, server: MeanServer) -> None:
    task = await it.create(inputs=[{"path": "/in/a", "url": server.add("/a", b"x")}])
    path = f"container_requests/{task}"
    await it.world.ok("PUT", path, {"command": ["other"], "properties": {}})
    await it.transfer()
    assert (await it.world.ok("GET", path))["command"] == ["true"]


async def test_an_image_that_is_not_there(it: TaskWorld, server: MeanServer) -> None:
    executors = [
        {"image": await it.world.ensure_image(), "command": ["true"]},
        {"image": "none:1", "command": ["true"]},
    ]
    inputs = [{"path": "/in/a", "url": server.add("/a", b"x")}]
    reply = await it.call("POST", "tasks", {"executors": executors, "inputs": inputs})
    [error] = reply.json["errors"]
    assert (reply.status, error["pointer"]) == (400, "/executors/1/image")
    assert "none:1" in error["detail"]
    await it.transfer()
    assert ((await it.ok("GET", "tasks"))["tasks"], server.seen) == ([], [])


async def test_an_image_that_was_removed(it: TaskWorld, server: MeanServer) -> None:
    image = await it.world.collection({f"sha256:{'1' * 64}.tar": b"another"})
    executors = [{"image": image["portable_data_hash"], "command": ["true"]}]
    inputs = [{"path": "/in/a", "url": server.add("/a", b"x")}]
    task = await it.create(executors=executors, inputs=inputs)
    await it.world.ok("DELETE", f"collections/{image['uuid']}")
    await it.transfer()
    assert await it.state(task) == "SYSTEM_ERROR"
    assert image["portable_data_hash"] in (await logs(it, task))[0]


async def test_two_users_with_slow_transfers_hold_up_no_third_one(
    it: TaskWorld, server: MeanServer
) -> None:
    task: Any = {}
    slow: list[tuple[str, str]] = []
    async with silent_server() as url:
        for name in ("bob", "cleo"):
            token = await it.world.user(name)
            image = await it.world.ensure_image(token)
            task["executors"] = [{"image": image, "command": ["true"]}]
            for number in range(6):
                task["inputs"] = [{"path": "/in/a", "url": f"{url}/{number}"}]
                made = await it.ok("POST", "tasks", task, token=token)
                slow.append((made["id"], token))
            # All places that are for this user are taken.
            for _ in range(3):
                await it.worker.look()
        task["inputs"] = [{"path": "/in/a", "url": server.add("/a", b"x")}]
        token = await it.world.user("ann")
        task["executors"][0]["image"] = await it.world.ensure_image(token)
        made = await it.ok("POST", "tasks", task, token=token)
        await it.worker.look()
        async with asyncio.timeout(10):
            while await phase(it, made["id"]) is TransferPhase.FETCHING:
                await asyncio.sleep(0)
        assert {await phase(it, one) for one, _ in slow} == {TransferPhase.FETCHING}
        for one, token in slow:
            await it.ok("POST", f"tasks/{one}:cancel", token=token)
        await it.worker.settle()


async def test_it_runs_until_it_is_cancelled(it: TaskWorld, server: MeanServer) -> None:
    running = asyncio.create_task(it.worker.run())
    task = await it.create(inputs=[{"path": "/in/a", "url": server.add("/a", b"x")}])
    while await phase(it, task) is not TransferPhase.DONE:
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (await it.world.ok("GET", f"container_requests/{task}"))["state"] == "Committed"


async def test_faults_of_the_server_itself_are_tried_again(
    it: TaskWorld, server: MeanServer
) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise Unavailable("no")

    task = await it.create(inputs=[{"path": "/in/a", "url": server.add("/a", b"x")}])
    other = worker(it, broken)
    for number in range(25):
        it.world.clock.advance(20)
        await other.look()
        await other.settle()
        if number == 0:
            # The first fault is not the last word.
            assert await phase(it, task) is not TransferPhase.FAILED
    assert await it.state(task) == "SYSTEM_ERROR"
    assert server.seen == []


async def test_what_another_worker_holds_is_left(it: TaskWorld, server: MeanServer) -> None:
    task = await it.create(inputs=[{"path": "/in/a", "url": server.add("/a", b"x")}])
    later = "2027-01-01T00:00:00.000000000Z"
    waiting = [one.request_uuid for one in await it.journal.waiting(now=later, most=1)]
    await it.journal.take(waiting, holder="another", now=later, until=later)
    await it.transfer()
    assert (await phase(it, task), server.seen) == (TransferPhase.FETCHING, [])


async def test_a_task_that_was_deleted(it: TaskWorld, server: MeanServer) -> None:
    task = await it.create(outputs=[{"path": "/o/a", "url": server.url}])
    await it.world.ok("DELETE", f"container_requests/{task}")
    await it.transfer()
    assert await phase(it, task) is TransferPhase.CANCELLED


async def test_a_draft_that_was_deleted(it: TaskWorld, server: MeanServer) -> None:
    task = await it.create(inputs=[{"path": "/in/a", "url": server.add("/a", b"x")}])
    await it.world.ok("DELETE", f"container_requests/{task}")
    await it.transfer()
    assert await phase(it, task) is TransferPhase.FAILED


async def test_a_cancel_stops_the_work(it: TaskWorld, server: MeanServer) -> None:
    task = await it.create(inputs=[{"path": "/in/a", "url": server.add("/a", b"x")}])
    await it.worker.look()
    await it.ok("POST", f"tasks/{task}:cancel")
    await it.worker.settle()
    assert await it.state(task) == "CANCELED"
    assert (await it.world.ok("GET", f"container_requests/{task}"))["state"] == "Uncommitted"


async def test_a_cancel_at_the_moment_of_the_commit(it: TaskWorld, server: MeanServer) -> None:
    task = await it.create(inputs=[{"path": "/in/a", "url": server.add("/a", b"x")}])
    # As a request, which the worker hears of later.
    await it.world.ok("POST", f"container_requests/{task}/cancel")
    await it.transfer()
    assert await it.state(task) == "CANCELED"
    assert (await it.world.ok("GET", f"container_requests/{task}"))["state"] == "Final"


async def test_output_that_was_deleted(it: TaskWorld, server: MeanServer) -> None:
    task = await it.create(outputs=[{"path": "/out/out.txt", "url": server.url + "/a"}])
    await it.world.run(await it.container(task))
    record = await it.world.ok("GET", f"container_requests/{task}")
    await it.world.ok("DELETE", f"collections/{record['output_uuid']}")
    await it.transfer()
    assert await it.state(task) == "SYSTEM_ERROR"
    assert "deleted before its delivery" in (await logs(it, task))[0]
