"""The feed: which events need a fetch, and that fetches are shared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from lading.client.api import ApiClient
from lading.client.events import Event, Reconnected
from lading.client.retry import NO_RETRY
from lading.core.container import State
from lading.dispatch.feed import KIND, Feed
from lading.dispatch.queue import Queue
from lading.dispatch.settings import Settings
from lading.testing.containers import TOKEN, FakeContainers
from lading.testing.dispatching import QUICK


class Fed:
    """A feed in front of a fake server."""

    def __init__(self, settings: Settings = QUICK) -> None:
        self.server, self.queue, self.wake = FakeContainers(), Queue(token=TOKEN), asyncio.Event()
        client = ApiClient(self.server, "secret", retry=NO_RETRY)
        self.feed = Feed(client, self.queue, token=TOKEN, settings=settings, wake=self.wake, clock=lambda: 0.0)
        self.gaps = 0

    async def hear(self, *items: Event | Reconnected) -> None:
        async def stream() -> AsyncGenerator[Event | Reconnected]:
            for item in items:
                yield item

        await self.feed.follow(stream(), on_gap=self._gap)

    async def fetch_until_known(self, *uuids: str) -> None:
        task = asyncio.create_task(self.feed.fetch())
        while not set(uuids) <= self.queue.uuids():
            self.wake.clear()
            await self.wake.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _gap(self) -> None:
        self.gaps += 1


def event(uuid: str, new: str = "Queued", *, old: str = "", kind: str = KIND) -> Event:
    properties = {"old_attributes": {"state": old}, "new_attributes": {"state": new}}
    return Event(event_type="update", object_uuid=uuid, object_kind=kind, properties=properties)


@pytest.fixture
def fed() -> Fed:
    return Fed()


async def test_many_events_are_one_request(fed: Fed) -> None:
    uuids = [fed.server.add() for _ in range(50)]
    await fed.hear(*(event(uuid) for uuid in uuids))
    await fed.fetch_until_known(*uuids)
    assert fed.server.calls == ["GET containers"]


async def test_other_kinds_are_not_our_business(fed: Fed) -> None:
    await fed.hear(event("x", kind="arvados#collection"))
    assert not fed.feed._pending


async def test_an_end_needs_no_request(fed: Fed) -> None:
    uuid = fed.server.add()
    await fed.feed.load()
    fed.wake.clear()
    await fed.hear(event(uuid, "Running", old="Locked"), event(uuid, "Complete", old="Running"))
    record = fed.queue.get(uuid)
    assert record is not None
    assert record.state is State.COMPLETE
    assert fed.wake.is_set()
    assert not fed.feed._pending


async def test_events_without_attributes_are_followed_by_a_fetch(fed: Fed) -> None:
    uuid = fed.server.add()
    await fed.hear(Event(event_type="update", object_uuid=uuid, object_kind=KIND))
    await fed.fetch_until_known(uuid)


async def test_a_gap_is_told(fed: Fed) -> None:
    await fed.hear(Reconnected())
    assert fed.gaps == 1


async def test_a_failed_fetch_is_tried_again(fed: Fed) -> None:
    uuid = fed.server.add()
    fed.server.down = True
    fed.feed.reread(uuid)
    task = asyncio.create_task(fed.feed.fetch())
    await fed.server.wait_for(lambda: len(fed.server.calls) > 2)
    fed.server.down = False
    await fed.wake.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert fed.queue.get(uuid) is not None


async def test_a_fetch_under_way_is_not_repeated_unless_it_is_too_old(fed: Fed) -> None:
    with fed.queue.fetch() as ticket:
        fed.feed._under_way = {"u": ticket}
        fed.feed.reread("u", after=ticket - 1)
        assert not fed.feed._pending
        fed.feed.reread("u", after=ticket)
        assert list(fed.feed._pending) == ["u"]


async def test_load_reads_own_and_waiting_containers_and_asks_for_the_rest(fed: Fed) -> None:
    mine, waiting, gone, other = (fed.server.add() for _ in range(4))
    await fed.feed.load()
    fed.server.hold(mine, State.RUNNING)
    fed.server.hold(other, State.RUNNING, by="another")
    fed.server.set_state(gone, State.CANCELLED)
    await fed.feed.load()
    assert set(fed.feed._pending) == {gone, other}
    assert set(fed.queue.waiting) == {waiting, gone, other}


async def test_a_full_window_is_refilled_when_it_runs_low() -> None:
    fed = Fed(Settings(window=4))
    uuids = [fed.server.add() for _ in range(9)]
    await fed.feed.load()
    assert len(fed.queue.waiting) == 4
    fed.feed.refill()
    assert not fed.feed._look.is_set()
    for uuid in uuids[:3]:
        fed.queue.forget(uuid)
    fed.feed.refill()
    assert fed.feed._look.is_set()
