"""Statuses: only what changed, everything again after a break."""

from __future__ import annotations

import asyncio

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.core.scheduling.planning import Category, WaitStatus
from lading.dispatch.status_publisher import DecisionLog, StatusPublisher
from lading.testing.containers import FakeContainers


def publisher(
    server: FakeContainers, texts: dict[str, str], *, longest: float = 60.0
) -> StatusPublisher:
    client = ApiClient(server, "secret", retry=NO_RETRY)
    return StatusPublisher(
        client,
        lambda: {uuid: WaitStatus(Category.CAPACITY, text) for uuid, text in texts.items()},
        DecisionLog(lambda: 0.0),
        interval=0.001,
        longest=longest,
    )


async def test_only_changes_are_posted() -> None:
    server, texts = FakeContainers(), {"a": "one", "b": "two"}
    made = publisher(server, texts)
    await made.post()
    await made.post()
    assert server.calls == ["POST dispatch/statuses"]
    server.statuses.clear()
    texts["a"] = "new"
    del texts["b"]
    await made.post()
    assert server.statuses == {"a": "new", "b": ""}


async def test_all_is_posted_again_after_a_break_and_failures_are_tried_again() -> None:
    server, texts = FakeContainers(), {"a": "one"}
    made = publisher(server, texts)
    await made.post()
    server.statuses.clear()
    server.down = True
    task = asyncio.create_task(made.publish())
    made.repeat()
    await server.wait_for(lambda: len(server.calls) > 2)
    server.down = False
    await server.wait_for(lambda: server.statuses == {"a": "one"})
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_nothing_is_posted_unless_marked() -> None:
    server = FakeContainers()
    made = publisher(server, {"a": "one"})
    task = asyncio.create_task(made.publish())
    await asyncio.sleep(0)
    assert server.calls == []
    made.mark()
    await server.wait_for(lambda: server.statuses == {"a": "one"})
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_dispatcher_with_nothing_to_say_says_that_it_is_there() -> None:
    server = FakeContainers()
    made = publisher(server, {}, longest=0.001)
    await made.post()
    await made.post()
    assert server.calls == ["POST dispatch/statuses"]
    task = asyncio.create_task(made.publish())
    await server.wait_for(lambda: len(server.calls) > 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert server.statuses == {}


async def test_marks_without_a_change_do_not_put_off_the_report_that_is_due() -> None:
    server = FakeContainers()
    made = publisher(server, {}, longest=0.05)
    task = asyncio.create_task(made.publish())

    async def look_again() -> None:
        # The loop of a dispatcher marks after each of its passes.
        while True:
            made.mark()
            await asyncio.sleep(0)

    marking = asyncio.create_task(look_again())
    await server.wait_for(lambda: len(server.calls) > 2)
    for one in (task, marking):
        one.cancel()
    await asyncio.gather(task, marking, return_exceptions=True)


async def test_misfits_are_named_when_they_are_new_and_when_nothing_was_said_for_long() -> None:
    server, found = FakeContainers(), {"a"}
    client = ApiClient(server, "secret", retry=NO_RETRY)
    made = StatusPublisher(
        client, dict, DecisionLog(lambda: 0.0), interval=0.001, misfits=lambda: found
    )
    for _ in range(2):
        await made.post()
    assert (server.calls, server.misfits) == (["POST dispatch/statuses"], {"a"})
    server.misfits.clear()
    found.add("b")
    await made.post()
    assert server.misfits == {"b"}
    made.repeat()
    await made.post()
    assert server.misfits == {"a", "b"}
