"""Following the queue: which events need a fetch, and that fetches are shared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from msgspec import structs

from lading.client.api import ApiClient
from lading.client.record_events import Reconnected, RecordEvent
from lading.client.retry import NO_RETRY
from lading.core.containers.container import ContainerState
from lading.core.errors import Unavailable
from lading.dispatch.queue import FIELDS, Queue
from lading.dispatch.queue_sync import KIND, QueueSync
from lading.dispatch.settings import DispatchSettings
from lading.testing.containers import QUICK, TOKEN, FakeContainers, Faults


class Fed:
    """A QueueSync in front of a fake server."""

    def __init__(self, settings: DispatchSettings = QUICK) -> None:
        self.server, self.queue, self.wake = FakeContainers(), Queue(token=TOKEN), asyncio.Event()
        client = ApiClient(self.server, "secret", retry=NO_RETRY)
        self.queue_sync = QueueSync(
            client, self.queue, token=TOKEN, settings=settings, wake=self.wake, clock=lambda: 0.0
        )
        self.gaps = 0

    async def hear(self, *items: RecordEvent | Reconnected) -> None:
        async def stream() -> AsyncGenerator[RecordEvent | Reconnected]:
            for item in items:
                yield item

        await self.queue_sync.follow(stream(), on_gap=self._gap)

    async def fetch_until_known(self, *uuids: str) -> None:
        task = asyncio.create_task(self.queue_sync.fetch())
        while not set(uuids) <= self.queue.uuids():
            self.wake.clear()
            await self.wake.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _gap(self) -> None:
        self.gaps += 1


def event(uuid: str, new: str = "Queued", *, old: str = "", kind: str = KIND) -> RecordEvent:
    properties = {"old_attributes": {"state": old}, "new_attributes": {"state": new}}
    return RecordEvent(
        event_type="update", object_uuid=uuid, object_kind=kind, properties=properties
    )


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
    assert not fed.queue_sync.pending


async def test_an_end_needs_no_request(fed: Fed) -> None:
    uuid = fed.server.add()
    await fed.queue_sync.load()
    fed.wake.clear()
    locked = event(uuid, "Locked", old="Queued")
    locked.properties["new_attributes"]["locked_by_uuid"] = "other"
    running, complete = event(uuid, "Running", old="Locked"), event(uuid, "Complete", old="Running")
    await fed.hear(locked, running, complete)
    record = fed.queue.get(uuid)
    assert record is not None
    assert record.state is ContainerState.COMPLETE
    assert fed.wake.is_set()
    assert not fed.queue_sync.pending


async def test_a_new_container_needs_no_request(fed: Fed) -> None:
    uuid = fed.server.add()
    record = {name: fed.server.records[uuid].get(name) for name in FIELDS}
    await fed.hear(structs.replace(event(uuid), event_type="create", record=record))
    assert shown(fed) == [uuid]
    assert fed.wake.is_set()
    assert not fed.queue_sync.pending


async def test_containers_of_other_dispatchers_wake_nobody(fed: Fed) -> None:
    await fed.hear(event("theirs", "Locked", old="Queued"), event("theirs", "Running"))
    assert not fed.wake.is_set()
    assert not fed.queue_sync.pending


async def test_events_without_attributes_are_followed_by_a_fetch(fed: Fed) -> None:
    uuid = fed.server.add()
    await fed.hear(RecordEvent(event_type="update", object_uuid=uuid, object_kind=KIND))
    await fed.fetch_until_known(uuid)


async def test_a_gap_is_told(fed: Fed) -> None:
    await fed.hear(Reconnected())
    assert fed.gaps == 1


async def test_an_answer_that_does_not_come_is_asked_for_again() -> None:
    fed = Fed(DispatchSettings(read_timeout=0.01, retry_first=0.001))
    fed.server.faults = Faults(hang=1.0)
    uuid = fed.server.add()
    with pytest.raises(Unavailable, match="in time"):
        await fed.queue_sync.load()
    fed.queue_sync.reread(uuid)
    fetching = asyncio.create_task(fed.queue_sync.fetch())
    await fed.server.wait_for(lambda: len(fed.server.calls) > 3)
    fed.server.faults = Faults()
    await fed.wake.wait()
    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)
    assert shown(fed) == [uuid]


async def test_a_failed_fetch_is_tried_again(fed: Fed) -> None:
    uuid = fed.server.add()
    fed.server.down = True
    fed.queue_sync.reread(uuid)
    task = asyncio.create_task(fed.queue_sync.fetch())
    await fed.server.wait_for(lambda: len(fed.server.calls) > 2)
    fed.server.down = False
    await fed.wake.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert fed.queue.get(uuid) is not None


async def test_a_fetch_under_way_is_not_repeated_unless_it_is_too_old(fed: Fed) -> None:
    fed.server.faults = Faults(hang=1.0)
    before = fed.queue.ticket()
    fed.queue_sync.reread("u")
    fetching = asyncio.create_task(fed.queue_sync.fetch())
    while fed.queue_sync.pending:
        await asyncio.sleep(0)
    fed.queue_sync.reread("u", after=before)
    assert not fed.queue_sync.pending
    fed.queue_sync.reread("u", after=before + 1)
    assert fed.queue_sync.pending == ("u",)
    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)


async def test_load_reads_own_and_waiting_containers_and_asks_for_the_rest(fed: Fed) -> None:
    mine, waiting, gone, other = (fed.server.add() for _ in range(4))
    await fed.queue_sync.load()
    fed.server.hold(mine, ContainerState.RUNNING)
    fed.server.hold(other, ContainerState.RUNNING, by="another")
    fed.server.set_state(gone, ContainerState.CANCELLED)
    await fed.queue_sync.load()
    assert set(fed.queue_sync.pending) == {gone, other}
    assert set(fed.queue.waiting) == {waiting, gone, other}


async def test_a_full_window_is_refilled_when_it_runs_low() -> None:
    fed = Fed(DispatchSettings(window=4))
    uuids = [fed.server.add() for _ in range(9)]
    await fed.queue_sync.load()
    assert len(fed.queue.waiting) == 4
    fed.queue_sync.refill(())
    assert not fed.queue_sync.look_due.is_set()
    for uuid in uuids[:3]:
        fed.queue.forget(uuid)
    fed.queue_sync.refill(())
    assert fed.queue_sync.look_due.is_set()


def shown(fed: Fed) -> list[str]:
    return sorted(entry.uuid for entry in fed.queue.entries())


async def test_a_new_one_does_not_overtake_those_beyond_the_window() -> None:
    fed = Fed(DispatchSettings(window=2))
    uuids = [fed.server.add() for _ in range(4)]
    await fed.queue_sync.load()
    late, urgent = fed.server.add(), fed.server.add(priority=2)
    await fed.hear(event(late), event(urgent))
    await fed.fetch_until_known(urgent)
    assert shown(fed) == [*uuids[:2], urgent]
    assert fed.queue.get(late) is None
    for uuid in (urgent, *uuids[:3]):
        fed.server.set_state(uuid, ContainerState.CANCELLED)
        fed.queue.forget(uuid)
    await fed.queue_sync.load()
    assert shown(fed) == [uuids[3], late]


async def test_what_a_later_look_does_not_reach_is_hidden_until_one_does() -> None:
    fed = Fed(DispatchSettings(window=2))
    uuids = [fed.server.add() for _ in range(3)]
    await fed.queue_sync.load()
    urgent = fed.server.add(priority=2)
    await fed.queue_sync.load()
    assert shown(fed) == [uuids[0], urgent]
    assert fed.queue.hides(uuids[1])
    assert not fed.queue_sync.pending, "nothing that is hidden is fetched again at every look"
    fed.server.set_state(urgent, ContainerState.CANCELLED)
    fed.queue.forget(urgent)
    await fed.queue_sync.load()
    assert shown(fed) == uuids[:2]


async def test_a_look_goes_as_far_beyond_as_there_are_some_aside() -> None:
    fed = Fed(DispatchSettings(window=2))
    uuids = [fed.server.add() for _ in range(6)]
    await fed.queue_sync.load()
    fed.queue_sync.refill(uuids[:2])
    assert fed.queue_sync.look_due.is_set()
    fed.queue_sync.look_due.clear()
    fed.queue_sync.refill(uuids[:2])
    assert not fed.queue_sync.look_due.is_set(), "one is under way"
    await fed.queue_sync.load()
    assert shown(fed) == uuids[:4]


async def test_ordinary_containers_and_supervisors_do_not_hide_each_other() -> None:
    fed = Fed(DispatchSettings(window=2))
    workflow = {"supervisor": True}
    workflows = [fed.server.add(priority=2, scheduling_parameters=workflow) for _ in range(3)]
    ordinary = [fed.server.add() for _ in range(3)]
    workflows.append(fed.server.add(scheduling_parameters=workflow))
    await fed.queue_sync.load()
    assert not shown(fed)
    fed.queue_sync.refill(())
    await fed.queue_sync.load()
    assert shown(fed) == ordinary[:1]
    assert [entry.uuid for entry in fed.queue.workflow_runners()] == workflows[:2]


async def test_supervisors_are_sought_again_only_when_events_may_have_been_missed() -> None:
    fed = Fed(DispatchSettings(window=3))
    workflow = {"supervisor": True}
    runner = fed.server.add(priority=1, scheduling_parameters=workflow)
    uuids = [fed.server.add(priority=2) for _ in range(9)]

    async def calls_of_a_look() -> int:
        before = len(fed.server.calls)
        await fed.queue_sync.load()
        return len(fed.server.calls) - before

    first = await calls_of_a_look()
    fed.queue.forget(uuids[0])
    assert await calls_of_a_look() == 2 < first
    assert not fed.queue_sync.pending
    late = fed.server.add(priority=1, scheduling_parameters=workflow)
    await fed.hear(event(late))
    await fed.fetch_until_known(late)
    assert [entry.uuid for entry in fed.queue.workflow_runners()] == [runner, late]
    await fed.hear(Reconnected())
    assert await calls_of_a_look() == first
    fed.server.down = True
    await fed.hear(Reconnected())
    with pytest.raises(Unavailable):
        await fed.queue_sync.load()
    fed.server.down = False
    assert await calls_of_a_look() == first


async def test_a_server_that_gives_few_at_a_time_is_asked_for_more() -> None:
    fed = Fed(DispatchSettings(window=5))
    fed.server.most_items = 2
    uuids = [fed.server.add() for _ in range(9)]
    await fed.queue_sync.load()
    assert shown(fed) == uuids[:5]
    assert fed.queue_sync.more


async def test_the_first_of_a_long_queue_are_known_before_the_rest_is_read() -> None:
    fed = Fed(DispatchSettings(window=250))
    uuids = [fed.server.add() for _ in range(300)]
    assert not await fed.queue_sync.begin()
    assert fed.queue_sync.loaded.is_set()
    assert (shown(fed), fed.server.calls) == (uuids[:100], ["GET containers"] * 2)
    await fed.queue_sync.load()
    assert shown(fed) == uuids[:250]


async def test_a_short_queue_is_read_once() -> None:
    fed = Fed()
    uuids = [fed.server.add() for _ in range(3)]
    looking = asyncio.create_task(fed.queue_sync.look())
    await fed.queue_sync.loaded.wait()
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    assert (shown(fed), fed.server.calls) == (uuids, ["GET containers"] * 3)
