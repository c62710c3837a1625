"""Deliveries of events: which, in which order, after faults, restarts and beside others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lading.api.webhooks.worker import WebhookWorker
from lading.core.records.schema import Record
from lading.core.webhooks.schedule import Answer, RetryRules
from lading.process.concurrency import cancel_all
from lading.testing.world import World
from tests.api.webhooks.fake_sender import (
    DOWN,
    GONE,
    GOOD,
    WRONG,
    FakeSender,
    hook,
    project,
    pump,
    worker_of,
)


async def standing(it: World, made: Record) -> Record:
    found: Record = await it.ok("GET", f"webhooks/{made['uuid']}/deliveries")
    return found


async def test_events_are_sent_in_their_order(it: World) -> None:
    await project(it, "before")
    made = await hook(it)
    for name in ("a", "b", "c"):
        await project(it, name)
    sender = FakeSender()
    await pump(it, worker_of(it, sender))
    assert sender.subjects() == ["a", "b", "c"]
    assert sender.sent[0][1]["type"] == "lading.group.create"
    found = await standing(it, made)
    assert (found["delivered"], found["failures"], found["dead"]) == (3, 0, [])


async def test_a_restart_goes_on_where_it_was(it: World) -> None:
    await hook(it)
    await project(it, "a")
    first, second = FakeSender(), FakeSender()
    await pump(it, worker_of(it, first))
    await project(it, "while no server ran")
    await pump(it, worker_of(it, second))
    assert (first.subjects(), second.subjects()) == (["a"], ["while no server ran"])


async def test_an_event_is_tried_again_before_the_next_one(it: World) -> None:
    made = await hook(it)
    await project(it, "a")
    await project(it, "b")
    answers = [DOWN, DOWN, GOOD]
    sender = FakeSender(lambda *_: answers.pop(0) if answers else GOOD)
    worker = worker_of(it, sender)
    await pump(it, worker, looks=1)
    assert (await standing(it, made))["failures"] == 1
    # Not before its delay.
    await pump(it, worker)
    assert sender.subjects() == ["a"]
    await pump(it, worker, after=20)
    assert sender.subjects() == ["a", "a", "a", "b"]
    assert len({event["id"] for _, event in sender.sent[:3]}) == 1


async def test_a_refused_event_becomes_a_dead_letter_that_can_be_sent_again(it: World) -> None:
    made = await hook(it)
    bad = await project(it, "bad")
    await project(it, "good")
    is_mended = False

    def answer(webhook: Record, event: Record) -> Answer:
        return WRONG if event["subject"] == bad["uuid"] and not is_mended else GOOD

    sender = FakeSender(answer)
    worker = worker_of(it, sender)
    await pump(it, worker, after=60)
    assert sender.subjects() == ["bad"] * 3 + ["good"]
    found = await standing(it, made)
    assert [(one["outcome"], one["status"]) for one in found["recent"]] == [
        ("delivered", 200), *[("refused", 400)] * 3,
    ]  # fmt: skip
    assert [one["fault"] for one in found["dead"]] == ["the receiver answered 400"]
    # A second refusal leaves it dead, and delays what follows.
    assert await it.ok("POST", f"webhooks/{made['uuid']}/redeliver") == {"queued": 1}
    await pump(it, worker, after=60)
    assert len((await standing(it, made))["dead"]) == 1
    is_mended = True
    numbers = {"log_ids": [found["dead"][0]["log_id"]]}
    assert await it.ok("POST", f"webhooks/{made['uuid']}/redeliver", numbers) == {"queued": 1}
    await pump(it, worker, after=60)
    found = await standing(it, made)
    assert (found["dead"], found["failures"], found["delivered"]) == ([], 0, 2)


async def test_gone_pauses_with_a_reason_and_an_event(it: World) -> None:
    made = await hook(it, url="https://gone.example/")
    await hook(it, url="https://watch.example/", event_types=["lading.webhook.update"])
    await project(it, "a")
    sender = FakeSender(lambda webhook, _: GONE if "gone" in webhook["url"] else GOOD)
    await pump(it, worker_of(it, sender))
    found = await it.ok("GET", f"webhooks/{made['uuid']}")
    assert (found["state"], "410" in found["paused_reason"]) == ("Paused", True)
    told = [event for url, event in sender.sent if "watch" in url]
    assert [one["data"]["properties"]["new_attributes"]["state"] for one in told] == ["Paused"]
    parts = (await it.ok("GET", "health"))["parts"]
    assert parts[-1]["text"] == "1 active, 0 of them failing; 1 paused"
    # What happens meanwhile is sent after it is resumed.
    await project(it, "b")
    await it.ok("POST", f"webhooks/{made['uuid']}/resume")
    await pump(it, worker_of(it, again := FakeSender()))
    assert again.subjects("https://gone.example/") == ["a", "b"]


async def test_resume_may_skip(it: World) -> None:
    made = await hook(it)
    await it.ok("POST", f"webhooks/{made['uuid']}/pause", {"reason": "too loud"})
    await project(it, "a")
    await it.ok("POST", f"webhooks/{made['uuid']}/resume", {"skip": True})
    await project(it, "b")
    await pump(it, worker_of(it, sender := FakeSender()))
    assert sender.subjects() == ["b"]


async def test_a_day_of_failures_pauses(it: World) -> None:
    made = await hook(it)
    for name in ("a", "b", "c"):
        await project(it, name)
    worker = worker_of(it, FakeSender(lambda *_: DOWN))
    await pump(it, worker, looks=40, after=3700)
    found = await it.ok("GET", f"webhooks/{made['uuid']}")
    assert found["state"] == "Paused"
    assert "nothing could be delivered" in found["paused_reason"]


async def test_a_hanging_receiver_delays_no_other(it: World) -> None:
    for number in range(3):
        token = await it.user(f"u{number}")
        await hook(it, token=token, url=f"https://u{number}.example/")
        await project(it, f"of u{number}", token=token)
    sender = FakeSender(hanging={"https://u0.example/"})
    worker = worker_of(it, sender)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(10):
        for _ in range(3):
            await sender.arrivals.get()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert sorted(sender.subjects()) == ["of u0", "of u1", "of u2"]


async def test_two_servers_send_each_event_once(it: World) -> None:
    for number in range(4):
        await hook(it, url=f"https://h{number}.example/")
    senders = [FakeSender(), FakeSender()]
    workers = [worker_of(it, one) for one in senders]
    source = random.Random(3)
    for number in range(12):
        await project(it, f"p{number}")
        await asyncio.gather(*(one.look() for one in source.sample(workers, 2)))
    for worker in workers:
        await worker.settle()
        await pump(it, worker)
    sent = [(url, event["id"]) for one in senders for url, event in one.sent]
    assert len(sent) == len(set(sent)) == 48


async def test_a_server_that_was_killed_leaves_its_webhooks_to_the_other(it: World) -> None:
    made = await hook(it)
    await project(it, "a")
    killed, other = FakeSender(hanging={"https://a.example/"}), FakeSender()
    dead = worker_of(it, killed)
    await dead.look()
    await killed.arrivals.get()
    await pump(it, alive := worker_of(it, other))
    assert not other.sent
    it.clock.advance(120)
    await pump(it, alive)
    assert other.subjects() == ["a"]
    # It was no more than slow: what it stores now counts for nothing.
    killed.released.set()
    await dead.settle()
    assert (await standing(it, made))["delivered"] == 1


async def test_only_events_that_the_user_can_read_are_sent(it: World) -> None:
    ada = await it.user("ada")
    await hook(it, token=ada)
    await project(it, "not hers")
    await project(it, "hers", token=ada)
    await pump(it, worker_of(it, sender := FakeSender()))
    assert sender.subjects() == ["hers"]


async def test_a_project_gets_its_own_events_alone(it: World) -> None:
    top = await project(it, "top")
    await hook(it, owner_uuid=top["uuid"])
    inner = await project(it, "inner", owner_uuid=top["uuid"])
    await project(it, "innermost", owner_uuid=inner["uuid"])
    moved = await project(it, "secret")
    await it.ok("PUT", f"groups/{moved['uuid']}", {"owner_uuid": top["uuid"], "name": "moved"})
    await pump(it, worker_of(it, sender := FakeSender()))
    assert sender.subjects() == ["inner", "innermost", "moved"]
    assert "secret" not in str(sender.sent)


async def test_states_choose(it: World) -> None:
    await hook(it, event_types=["lading.container_request.*"], states=["Final"])
    made = await it.submit()
    await it.run(made["container_uuid"])
    await pump(it, worker_of(it, sender := FakeSender()))
    assert [event["subject"] for _, event in sender.sent] == [made["uuid"]]


async def test_the_webhook_of_an_inactive_user_is_paused(it: World) -> None:
    ada = await it.user("ada")
    made = await hook(it, token=ada)
    user = await it.ok("GET", "users/current", token=ada)
    await project(it, "a", token=ada)
    await it.ok("POST", f"users/{user['uuid']}/unsetup")
    await pump(it, worker_of(it, sender := FakeSender()))
    found = await it.ok("GET", f"webhooks/{made['uuid']}")
    assert (found["state"], sender.sent) == ("Paused", [])
    assert "not active any more" in found["paused_reason"]


async def test_one_who_lost_the_project_gets_nothing(it: World) -> None:
    ada = await it.user("ada")
    user = await it.ok("GET", "users/current", token=ada)
    shared = await project(it, "shared")
    link = await it.ok(
        "POST", "links",
        {"link_class": "permission", "name": "can_manage", "tail_uuid": user["uuid"],
         "head_uuid": shared["uuid"]},
    )  # fmt: skip
    made = await hook(it, token=ada, owner_uuid=shared["uuid"])
    await it.ok("DELETE", f"links/{link['uuid']}")
    await project(it, "inside", owner_uuid=shared["uuid"])
    await pump(it, worker_of(it, sender := FakeSender()))
    found = await it.ok("GET", f"webhooks/{made['uuid']}")
    assert ("does not manage" in found["paused_reason"], sender.sent) == (True, [])


async def test_a_fault_of_one_webhook_ends_no_other(it: World) -> None:
    await hook(it, url="https://broken.example/")
    await hook(it, url="https://good.example/")

    def answer(webhook: Record, event: Record) -> Answer:
        if "broken" in webhook["url"]:
            raise RuntimeError("a fault of ours")
        return GOOD

    await project(it, "a")
    await pump(it, worker_of(it, sender := FakeSender(answer)))
    assert sender.subjects("https://good.example/") == ["a"]


async def test_what_is_stored_of_deleted_webhooks_goes(it: World) -> None:
    made = await hook(it)
    await it.ok("DELETE", f"webhooks/{made['uuid']}")
    async with it.database.reading() as tx:
        assert not await tx.fetch("SELECT 1 FROM webhook_positions")


class Broken(WebhookWorker):
    """A worker that has a fault in each look."""

    looked: asyncio.Event

    async def look(self) -> None:
        self.looked.set()
        raise RuntimeError("a fault of ours")


async def test_a_fault_in_a_look_does_not_end_the_server(it: World) -> None:
    worker = Broken(
        it.app.services, FakeSender(), rules=RetryRules(), most=1, timeout=15, chance=lambda: 0.0
    )
    worker.looked = asyncio.Event()
    running = asyncio.create_task(worker.run())
    await worker.looked.wait()
    await asyncio.wait((running,), timeout=0)
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def running(worker: WebhookWorker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(10):
            yield
    finally:
        await cancel_all(task)


async def test_events_wake_the_worker(it: World) -> None:
    made = await hook(it)
    sender = FakeSender()
    async with running(worker_of(it, sender)):
        for name in ("a", "b"):
            # Far sooner than it would look by itself.
            await project(it, name)
            await sender.arrivals.get()
        assert sender.subjects() == ["a", "b"]
        await it.ok("POST", f"webhooks/{made['uuid']}/pause")
        await project(it, "c")
        await it.ok("POST", f"webhooks/{made['uuid']}/resume")
        await sender.arrivals.get()
    assert sender.subjects()[2:] == ["c"]


async def test_the_first_webhook_wakes_a_worker_that_found_none(it: World) -> None:
    sender = FakeSender()
    async with running(worker_of(it, sender)):
        await project(it, "before")
        await hook(it)
        await project(it, "a")
        await asyncio.wait_for(sender.arrivals.get(), 20)
    assert sender.subjects() == ["a"]


async def test_dead_letters_that_are_sent_again_wake_the_worker(it: World) -> None:
    made = await hook(it)
    await project(it, "a")
    sender = FakeSender(lambda *_: WRONG)
    await pump(it, worker := worker_of(it, sender), after=60)
    assert len((await standing(it, made))["dead"]) == 1
    async with running(worker):
        while not sender.arrivals.empty():
            sender.arrivals.get_nowait()
        await it.ok("POST", f"webhooks/{made['uuid']}/redeliver")
        await sender.arrivals.get()


async def test_a_failed_event_is_sent_again_when_its_delay_ends(it: World) -> None:
    await hook(it)
    answers = [DOWN]
    sender = FakeSender(lambda *_: answers.pop() if answers else GOOD)
    rules = RetryRules(first_delay=0.05)
    worker = WebhookWorker(
        it.app.services, sender, rules=rules, most=4, timeout=15, chance=lambda: 0.0
    )
    async with running(worker):
        await project(it, "a")
        await sender.arrivals.get()
        # Nothing else wakes it: no event follows.
        it.clock.advance(0.05)
        await sender.arrivals.get()
    assert sender.subjects() == ["a", "a"]
