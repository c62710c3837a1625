"""Ends of runs, told to webhooks: once each, after faults and restarts too."""

from __future__ import annotations

from typing import Any

from lading.core.records.schema import JSON, Record
from lading.testing.world import World
from tests.api.resources.runs.runs_world import begin, step
from tests.api.webhooks.fake_sender import FakeSender, hook, project, pump, worker_of

EVENT = "lading.group.run_end"


async def wish(it: World, run: Record, **more: JSON) -> Record:
    return await hook(it, event_types=[EVENT], project_uuid=run["uuid"], **more)


def ends(sender: FakeSender) -> list[tuple[Any, ...]]:
    """Attempt, number and state of each event."""
    runs = [event["data"]["properties"]["run"] for _, event in sender.sent]
    return [(run["attempt"], run["number"], run["state"]) for run in runs]


async def test_the_end_of_a_run_is_sent_once(it: World) -> None:
    run = await begin(it, "cohort-7")
    await wish(it, run)
    first, second = await step(it, run, "a"), await step(it, run, "b")
    sender = FakeSender()
    worker = worker_of(it, sender)
    await it.run(first["container_uuid"])
    await pump(it, worker, after=70)
    assert not sender.sent
    await it.run(second["container_uuid"], exit_code=3)
    # The next step of a program may follow.
    await pump(it, worker, looks=2, after=20)
    assert not sender.sent
    await pump(it, worker, after=30)
    assert ends(sender) == [(1, 1, "failed")]
    event = sender.sent[0][1]
    assert (event["type"], event["subject"]) == (EVENT, run["uuid"])
    assert event["data"]["properties"]["new_attributes"] == {"name": "cohort-7", "state": "failed"}
    assert event["data"]["properties"]["text"] == "attempt 1 failed: 1 of 2 done, 1 failed"
    await pump(it, worker_of(it, sender), after=70)
    assert len(sender.sent) == 1


async def test_a_reported_end_counts_at_once(it: World) -> None:
    run = await begin(it, "r")
    await wish(it, run)
    request = await step(it, run, "a")
    await it.run(request["container_uuid"])
    await it.ok("POST", f"groups/{run['uuid']}/end_run", {"outcome": "done"})
    sender = FakeSender()
    await pump(it, worker_of(it, sender), looks=2)
    assert ends(sender) == [(1, 1, "done")]


async def test_a_run_that_goes_on_ends_again(it: World) -> None:
    run = await begin(it, "r", session="1")
    await wish(it, run)
    sender = FakeSender()
    worker = worker_of(it, sender)
    for number in range(2):
        request = await step(it, run, f"a{number}")
        await it.run(request["container_uuid"])
        it.clock.advance(70)
        await pump(it, worker)
    again = await begin(it, "r", session="2")
    request = await step(it, again, "b")
    await it.run(request["container_uuid"])
    it.clock.advance(70)
    await pump(it, worker)
    assert ends(sender) == [(1, 1, "done"), (1, 2, "done"), (2, 1, "done")]
    assert len({event["id"] for _, event in sender.sent}) == 3


async def test_the_end_while_no_server_ran_is_sent(it: World) -> None:
    run = await begin(it, "r")
    await wish(it, run)
    request = await step(it, run, "a")
    await it.run(request["container_uuid"])
    it.clock.advance(3600)
    first, second = FakeSender(), FakeSender()
    # Two servers of one database.
    one, other = worker_of(it, first), worker_of(it, second)
    await pump(it, one)
    await pump(it, other)
    assert ends(first) + ends(second) == [(1, 1, "done")]


async def test_an_end_before_the_wish_is_not_sent(it: World) -> None:
    run = await begin(it, "r")
    request = await step(it, run, "a")
    await it.run(request["container_uuid"])
    it.clock.advance(70)
    await wish(it, run)
    sender = FakeSender()
    worker = worker_of(it, sender)
    await pump(it, worker)
    request = await step(it, run, "b")
    await it.run(request["container_uuid"])
    it.clock.advance(70)
    await pump(it, worker)
    assert ends(sender) == [(1, 1, "done")]


async def test_only_failures_can_be_asked_for(it: World) -> None:
    run = await begin(it, "r")
    await wish(it, run, states=["failed"])
    sender = FakeSender()
    worker = worker_of(it, sender)
    for exit_code in (0, 1):
        request = await step(it, run, f"a{exit_code}")
        await it.run(request["container_uuid"], exit_code=exit_code)
        it.clock.advance(70)
        await pump(it, worker)
    assert ends(sender) == [(1, 2, "failed")]


async def test_a_project_that_is_no_run_has_no_end(it: World) -> None:
    plain = await project(it, "plain")
    await wish(it, plain)
    gone = await begin(it, "gone")
    await wish(it, gone)
    await it.ok("POST", f"groups/{gone['uuid']}/trash")
    sender = FakeSender()
    await pump(it, worker_of(it, sender), after=70)
    assert not sender.sent


async def test_nobody_forges_an_end(it: World) -> None:
    run = await begin(it, "r")
    row = {"event_type": "run_end", "object_uuid": run["uuid"]}
    assert (await it.request("POST", "logs", row)).status in (403, 422)
