from __future__ import annotations

from dataclasses import replace

import pytest

from lading.api.events.listeners import QUEUE, Changes, Listener, LogEvent

EVENT = LogEvent(
    id=1, uuid="zzzzz-57u5n-1", object_uuid="c", object_owner_uuid="o",
    object_kind="arvados#container", event_type="update", event_at="",
    properties={"old_attributes": {"owner_uuid": "o"}, "new_attributes": {"owner_uuid": "p"}},
)  # fmt: skip


def test_what_an_event_is_of() -> None:
    assert EVENT.is_change_of_container
    assert EVENT.is_move
    assert not replace(EVENT, object_kind="arvados#collection").is_change_of_container
    assert not replace(EVENT, properties={}).is_move


async def test_a_listener_ends_when_its_queue_is_full() -> None:
    listener = Listener("user")
    for _ in range(QUEUE):
        listener.put(EVENT, 1.0)
    assert (listener.waiting, listener.lost) == (QUEUE, False)
    listener.put(EVENT)
    assert listener.lost
    assert (await listener.get()).decided_at == 1.0
    for _ in range(QUEUE - 1):
        listener.get_at_once()
    with pytest.raises(IndexError):
        listener.get_at_once()


async def test_a_change_that_comes_before_the_wait_ends_it() -> None:
    changes = Changes({"a"}, is_over=False)
    changes.note()
    await changes.wait()
