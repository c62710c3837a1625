"""Rooms: the tightest one that fits, and how much of one is free."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from lading.core.resources import Resources
from lading.core.scheduling.instance_rooms import InstanceRoom, RoomIndex, free_share, lacking
from lading.core.scheduling.instance_types import InstanceType

KIND = InstanceType(name="t4", provider_type="t4", resources=Resources(4, 40))
OTHER = structs.replace(KIND, name="t8", resources=Resources(8, 80))
ONE = Resources(1, 10)


def room(id: str, vcpus: int, **more: object) -> InstanceRoom:
    made = InstanceRoom(id, "t4", Resources(vcpus, vcpus * 10), ready=True)
    return replace(made, **more)  # type: ignore[arg-type]


def index(*rooms: InstanceRoom) -> RoomIndex:
    made = RoomIndex()
    for one in rooms:
        made.add(one)
    return made


def test_the_tightest_room_of_the_first_type_is_found() -> None:
    made = index(room("wide", 4), room("tight", 2), room("full", 0), room("t8", 1, type="t8"))
    assert made.tightest_ready((KIND, OTHER), ONE, image="") == "tight"
    assert made.tightest_ready((OTHER, KIND), ONE, image="") == "t8"
    assert made.tightest_ready((KIND,), Resources(5, 10), image="") is None


def test_a_room_with_the_image_comes_first() -> None:
    made = index(room("tight", 1), room("holds", 3, images=frozenset({"image"})))
    assert made.tightest_ready((KIND,), ONE, image="image") == "holds"
    assert made.tightest_ready((KIND,), Resources(4, 40), image="image") is None


def test_rooms_that_boot_and_rooms_without_a_place_are_apart() -> None:
    made = index(room("boots", 4, ready=False), room("crowded", 4, places=0))
    assert made.tightest_ready((KIND,), ONE, image="") is None
    assert made.tightest_coming((KIND,), ONE) == "boots"


def test_a_room_that_was_removed_is_not_found() -> None:
    one, same = room("a", 2), room("b", 2)
    made = index(one, same)
    made.remove(one)
    assert made.tightest_ready((KIND,), ONE, image="") == "b"
    made.remove(same)
    assert made.tightest_ready((KIND,), ONE, image="") is None


def test_shares_are_of_the_scarcest_resource() -> None:
    types = {"t4": KIND}
    half = replace(room("a", 2), free=Resources(2, 10))
    assert free_share(half, types) == 0.25
    assert lacking(Resources(3, 10), half, types) == 0.25
    assert lacking(ONE, half, types) == 0.0
