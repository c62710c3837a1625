"""Events to listeners."""

from __future__ import annotations

import asyncio

from lading.api.events.event_bus import QUEUE, EventBus, LogEvent


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
        assert (await one.get()).id == (await other.get()).id == 2


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
