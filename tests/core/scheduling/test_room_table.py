"""The rooms of a planner: promises of them, and those that are kept."""

from __future__ import annotations

from dataclasses import replace

from lading.core.resources import GIB, Resources
from lading.core.scheduling.instance_rooms import InstanceRoom
from lading.core.scheduling.instance_types import ContainerShape, InstanceType
from lading.core.scheduling.room_table import RoomTable

KIND = InstanceType(name="t4", provider_type="t4", resources=Resources(4, 4 * GIB))
SHAPE = ContainerShape(need=Resources(1, GIB))


def room(id: str, *, ready: bool = True) -> InstanceRoom:
    return InstanceRoom(id, "t4", KIND.resources, ready=ready)


def table(*rooms: InstanceRoom) -> RoomTable:
    filled = RoomTable()
    for one in rooms:
        filled.put(one)
    return filled


def ready(rooms: RoomTable) -> str | None:
    tightest = rooms.tightest_ready((KIND,), SHAPE.need)
    return None if tightest is None else tightest.id


def test_a_promise_takes_room_until_it_is_broken() -> None:
    rooms = table(room("a", ready=False))
    rooms.promise("c", SHAPE, ("a", "a"))
    assert rooms.rooms["a"].free.vcpus == 2
    rooms.put(room("a", ready=False))
    assert (rooms.rooms["a"].free.vcpus, rooms.due("a")) == (2, ("c",))
    assert rooms.break_promise("c") == SHAPE
    assert (rooms.rooms["a"].free.vcpus, rooms.due("a"), rooms.promised_rooms("c")) == (4, (), ())


def test_a_room_that_is_kept_is_given_to_nobody() -> None:
    rooms = table(room("a"), room("b"))
    rooms.keep("c", frozenset(("a",)))
    rooms.keep("c", frozenset(("a",)))
    assert ready(rooms) == "b"
    rooms.stop_keeping("other")
    assert [one.id for one in rooms.kept_rooms()] == ["a"]
    rooms.drop("b")
    assert ready(rooms) is None
    rooms.stop_keeping("c")
    assert (ready(rooms), rooms.kept_for) == ("a", "")


def test_a_room_that_closed_while_it_was_kept_is_not_given_later() -> None:
    rooms = table(room("a"))
    rooms.keep("c", frozenset(("a",)))
    rooms.put(replace(room("a"), open=False))
    rooms.stop_keeping()
    assert ready(rooms) is None
