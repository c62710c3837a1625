"""Events to listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lading.api.events.event_bus import EventBus
from lading.api.events.listeners import QUEUE, Listener, LogEvent


def change(container: str, old: str, new: str, *, by: str | None = None) -> LogEvent:
    """An event about the state of a container, and its lock."""
    after = {"state": new} | ({} if by is None else {"locked_by_uuid": by})
    return replace(
        event(1),
        object_uuid=container,
        object_kind="arvados#container",
        properties={"old_attributes": {"state": old}, "new_attributes": after},
    )


def heard(*listeners: Listener) -> list[list[str]]:
    """The new states that each listener has heard since the last call."""
    return [
        [one.get_at_once().event.attributes("new_attributes")["state"] for _ in range(one.waiting)]
        for one in listeners
    ]


@contextmanager
def dispatching(bus: EventBus) -> Iterator[tuple[Listener, Listener, Listener]]:
    """Two dispatchers, `a` and `b`, and another listener."""
    with bus.listen() as one, bus.listen() as other, bus.listen() as plain:
        one.dispatcher, other.dispatcher = "a", "b"
        yield one, other, plain
    bus.end_waits()


def event(number: int) -> LogEvent:
    return LogEvent(
        id=number,
        uuid="l",
        object_uuid="o",
        object_owner_uuid="u",
        object_kind=None,
        event_type="update",
        event_at="now",
        properties={},
    )


async def test_listeners_hear_what_is_published_meanwhile() -> None:
    made = EventBus()
    made.publish(event(1))
    with made.listen() as one, made.listen() as other:
        made.publish(event(2))
        assert (await one.get()).event.id == (await other.get()).event.id == 2


async def test_a_listener_that_does_not_keep_up_is_lost() -> None:
    made = EventBus()
    with made.listen() as listener:
        for number in range(QUEUE + 1):
            made.publish(event(number))
    assert listener.lost


def test_watchers_are_told_of_events_and_of_a_wake_meanwhile() -> None:
    made, told = EventBus(), list[str]()
    with made.watch(lambda: told.append("one")), made.watch(lambda: told.append("other")):
        made.publish(event(1))
        made.wake()
    made.wake()
    assert told == ["one", "other"] * 2


async def test_a_waiter_hears_of_its_records_only() -> None:
    made = EventBus()
    with made.listen_for({"o"}) as changes, made.listen_for({"p"}) as others:
        assert made.waits == 2
        made.publish(event(1))
        # Noted before it waits.
        await changes.wait()
        assert not changes.is_over
        waiting = asyncio.create_task(others.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        made.end_waits()
        await waiting
        assert others.is_over
    with made.listen_for({"o"}) as late:
        await late.wait()
    assert made.waits == 0


async def test_a_new_container_is_offered_and_its_holder_hears_alone_of_the_rest() -> None:
    bus = EventBus()
    with dispatching(bus) as told:
        bus.publish(change("c", "", "Queued"))
        bus.publish(change("c", "Queued", "Queued"))
        assert heard(*told) == [["Queued"] * 2, [], ["Queued"] * 2]
        bus.publish(change("c", "Queued", "Locked", by="a"))
        # All hear of a lock: one may have found the container in a list meanwhile.
        assert heard(*told) == [["Locked"]] * 3
        for old, new in (("Locked", "Locked"), ("Locked", "Running"), ("Running", "Complete")):
            bus.publish(change("c", old, new))
            assert heard(*told) == [[new], [], [new]]


async def test_a_container_that_is_given_back_is_offered_again() -> None:
    bus = EventBus()
    with dispatching(bus) as told:
        bus.publish(change("c", "", "Queued"))
        bus.publish(change("c", "Queued", "Locked", by="a"))
        heard(*told)
        bus.publish(change("c", "Locked", "Queued"))
        assert heard(*told) == [[], ["Queued"], ["Queued"]]


async def test_the_others_hear_of_an_offer_that_is_let_pass() -> None:
    bus = EventBus()
    with dispatching(bus) as told:
        bus.publish(change("c", "", "Queued"))
        assert heard(*told) == [["Queued"], [], ["Queued"]]
        await told[1].arrival_by(asyncio.get_running_loop().time() + 60)
        assert heard(*told) == [[], ["Queued"], []]
        # The first one has no room: the next container goes to the other.
        bus.publish(change("d", "", "Queued"))
        assert heard(*told) == [[], ["Queued"], ["Queued"]]


async def test_events_without_a_change_of_state_end_no_offer() -> None:
    bus = EventBus()
    with dispatching(bus) as told:
        bus.publish(change("c", "", "Queued"))
        heard(*told)
        note = replace(change("c", "", ""), event_type="stderr", properties={"text": "x"})
        bus.publish(note)
        assert [one.waiting for one in told] == [1, 1, 1]
        for one in told:
            one.get_at_once()
        await told[1].arrival_by(asyncio.get_running_loop().time() + 60)
        assert heard(told[1]) == [["Queued"]]


async def test_a_deleted_or_cancelled_container_is_offered_no_more() -> None:
    bus = EventBus()
    with dispatching(bus) as told:
        bus.publish(change("c", "", "Queued"))
        bus.publish(change("c", "Queued", "Cancelled"))
        assert heard(*told) == [["Queued", "Cancelled"], ["Cancelled"], ["Queued", "Cancelled"]]
        bus.publish(change("d", "", "Queued"))
        await told[0].arrival_by(asyncio.get_running_loop().time() + 60)
        # `d` was offered to the other; nothing is left of `c`.
        assert heard(told[0]) == [["Queued"]]


async def test_a_lock_whose_holder_is_not_known_ends_the_offer() -> None:
    bus = EventBus()
    with dispatching(bus) as told:
        bus.publish(change("c", "", "Queued"))
        # As a server of an earlier release on the same database reports it.
        bus.publish(change("c", "Queued", "Locked"))
        bus.publish(change("d", "", "Queued"))
        heard(*told)
        # `d` was offered to the other dispatcher; `a` hears of it when that offer is over.
        async with asyncio.timeout(5):
            await told[0].arrival_by(asyncio.get_running_loop().time() + 60)
        assert heard(told[0]) == [["Queued"]]


async def test_a_dispatcher_that_is_alone_or_lost_changes_nothing() -> None:
    bus = EventBus()
    with dispatching(bus) as told:
        told[0].lost = True
        bus.publish(change("c", "", "Queued"))
        assert heard(*told) == [["Queued"]] * 3
