"""Which listeners hear of an event."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from lading.api.events.audiences import Audiences
from lading.api.events.event_bus import EventBus
from lading.api.events.listeners import Listener, LogEvent
from lading.core.errors import Unavailable
from lading.store import event_audiences
from lading.testing.world import World

EVENT = LogEvent(
    id=1,
    uuid="l",
    object_uuid="zzzzz-4zz18-000000000000001",
    object_owner_uuid="u",
    object_kind="arvados#collection",
    event_type="update",
    event_at="now",
    properties={},
)


def waiting(*listeners: Listener) -> list[int]:
    return [one.waiting for one in listeners]


async def test_only_readers_who_want_an_event_are_woken() -> None:
    bus = EventBus()
    with bus.listen("ann") as ann, bus.listen("ann") as picky, bus.listen("bob") as bob:
        bus.choose(picky, b"none", lambda _: False)
        assert bus.users == {"ann", "bob"}
        bus.publish(EVENT)
        await bus.until_undecided()
        (event,) = bus.take_undecided(10)
        bus.hand_out(event, {"ann", "eve"}, decided_at=1.0)
        assert waiting(ann, picky, bob) == [1, 0, 0]
        assert ann.get_at_once().decided_at == 1.0
        # One who has become an admin gets all at once.
        bus.follow(bob, "")
        bus.publish(EVENT)
        assert waiting(ann, picky, bob) == [0, 0, 1]
    assert bus.users == set()


async def test_equal_filters_are_looked_at_once() -> None:
    bus, looks = EventBus(), list[LogEvent]()

    def wants(event: LogEvent) -> bool:
        looks.append(event)
        return False

    with bus.listen("ann") as one, bus.listen("bob") as other:
        for listener in (one, other):
            bus.choose(listener, b"same", wants)
        assert not bus.is_wanted(EVENT)
        assert looks == [EVENT]
        bus.choose(one, b"all", lambda _: True)
        assert bus.is_wanted(EVENT)


async def test_a_change_of_a_listener_is_told_whatever_the_filters() -> None:
    bus = EventBus()
    user = "zzzzz-tpzed-000000000000001"
    with bus.listen(user) as ann, bus.listen() as admin:
        for listener in (ann, admin):
            bus.choose(listener, b"none", lambda _: False)
        bus.publish(replace(EVENT, object_uuid=user))
        assert bus.is_wanted(replace(EVENT, object_uuid=user))
        (event,) = bus.take_undecided(10)
        bus.hand_out(event, set(), decided_at=1.0)
        assert waiting(ann, admin) == [1, 1]
        # The reader finds out whether it may be read.
        assert ann.get_at_once().decided_at is None


async def test_dropped_listeners_find_out() -> None:
    bus = EventBus()
    with bus.listen("ann") as ann:
        bus.lose()
        bus.publish(EVENT)
        assert (ann.lost, ann.waiting) == (True, 1)
    with bus.listen("ann") as ann:
        for _ in range(20_000):
            bus.publish(EVENT)
        assert ann.lost
        assert ann.waiting


async def test_a_database_that_fails(it: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    async def fail(*_: object, **__: object) -> None:
        tries.append(1)
        raise Unavailable("no database")

    monkeypatch.setattr(event_audiences, "readers_of", fail)
    bus = it.app.services.events.bus
    with bus.listen("ann") as ann:
        await asyncio.wait_for(Audiences(it.app.services).hand_out([EVENT]), 30)
        assert ann.lost
        assert len(tries) == 3
