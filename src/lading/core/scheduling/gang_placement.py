"""Placement of the ranks of a gang that is larger than any one VM: rooms for all ranks, or none
(`cloud_planner`).

Ranks go onto ready rooms before those that boot, onto those that hold most of them first, to use
few VMs; of these to one that has the image. Rank 0 is on the first. Where no further VM may be had,
rooms are kept for the gang that stands first, as many as it takes to hold all of it once they are
empty; none if they would never do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from lading.core.scheduling.instance_rooms import InstanceRoom
from lading.core.scheduling.instance_types import ContainerShape, InstanceType


@dataclass(frozen=True, slots=True)
class Kept:
    """Rooms that are kept for a gang, and a number of places for VMs that are not there yet."""

    rooms: frozenset[str]
    places: int


def lay_out(
    shape: ContainerShape,
    rooms: Iterable[InstanceRoom],
    ranking: Mapping[str, int],
    *,
    image: str = "",
) -> tuple[str, ...]:
    """The room of each rank, as many of them as there is room for. `ranking`: the place of each
    eligible type.
    """
    able = [
        (held, room) for room in rooms if room.type in ranking and (held := _holds(shape, room))
    ]
    able.sort(
        key=lambda pair: (
            not pair[1].ready,
            ranking[pair[1].type],
            -pair[0],
            *_taste(pair[1], image),
        )
    )
    found: list[str] = []
    for held, room in able:
        found += [room.id] * min(held, shape.nodes - len(found))
    return tuple(found)


def keep(
    shape: ContainerShape,
    rooms: Collection[InstanceRoom],
    types: Mapping[str, InstanceType],
    *,
    most: int,
    each: int,
    free: int,
) -> Kept | None:
    """The rooms to keep for a gang; None when all of them would not be enough.

    `types` are the eligible ones, `rooms` all that there are, `most` how many ranks may be on any
    of them. `each` is how many ranks a further VM holds, and `free` how many further ones may be
    asked for now. A room of another type makes place for a VM when it is empty.
    """
    most = min(most, shape.nodes)
    right, wrong = _usable(shape, rooms, types, most)
    kept, left, places = set[str](), shape.nodes, 0
    for whole, room in right:
        if _holds(shape, room) >= whole and left > 0:
            kept.add(room.id)
            left -= whole
    while left > 0 and places < free:
        places, left = places + 1, left - each
    for whole, room in right:
        if room.id not in kept and left > 0:
            kept.add(room.id)
            left -= whole
    for room in wrong:
        if left > 0:
            kept.add(room.id)
            left -= each
    later = _later(rooms, types) - len(wrong)
    return None if left > each * later else Kept(frozenset(kept), places)


def _usable(
    shape: ContainerShape,
    rooms: Collection[InstanceRoom],
    types: Mapping[str, InstanceType],
    most: int,
) -> tuple[list[tuple[int, InstanceRoom]], list[InstanceRoom]]:
    """Open rooms of eligible types, each after the ranks that it holds at most, and ready ones of
    other types; the best to keep first.
    """
    right = [
        (min(_capacity(shape, one, types), most), one)
        for one in rooms
        if one.open and one.type in types
    ]
    right.sort(
        key=lambda pair: (
            not pair[1].ready,
            pair[0] - min(_holds(shape, pair[1]), pair[0]),
            pair[1].id,
        )
    )
    wrong = [one for one in rooms if one.open and one.type not in types and one.ready]
    wrong.sort(key=lambda one: (not one.empty, one.id))
    return right, wrong


def _later(rooms: Collection[InstanceRoom], types: Mapping[str, InstanceType]) -> int:
    """How many rooms make place for a VM of an eligible type one day: they leave, boot for others,
    or are of another type.
    """
    return sum(one.type not in types if one.open else not one.stays for one in rooms)


def _holds(shape: ContainerShape, room: InstanceRoom) -> int:
    return min(room.free.holds(shape.need), max(0, room.places))


def _capacity(shape: ContainerShape, room: InstanceRoom, types: Mapping[str, InstanceType]) -> int:
    return types[room.type].resources.holds(shape.need)


def _taste(room: InstanceRoom, image: str) -> tuple[bool, str]:
    return image not in room.images, room.id
