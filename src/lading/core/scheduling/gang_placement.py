"""Where the ranks of a gang go that no one VM can hold: rooms for all of them, or none
(`cloud_planner`).

Ranks go onto ready rooms before those that boot, onto those that hold most of them first, to use
few VMs; of these to one that has the image. Rank 0 is on the first. Where no further VM may be had,
rooms are kept for the gang that stands first, as many as it takes to hold all of it once they are
empty; none if they would never do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from lading.core.resources import Resources
from lading.core.scheduling.instance_types import InstanceType, Shape

# Places on a VM without a limit.
ANY = 1 << 30
Signature = tuple[Resources, int]
"""What is free in a room, and for how many more containers."""


@dataclass(frozen=True, slots=True)
class Room:
    """A VM: what is free there, for how many more containers, whether it can be started on now and
    is empty.

    `images` are those that need not be fetched there any more.
    """

    id: str
    type: str
    free: Resources
    ready: bool = False
    empty: bool = True
    places: int = ANY
    open: bool = True
    images: frozenset[str] = frozenset()
    stays: bool = False
    """It is kept as it is, whatever happens."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept for a gang: rooms, and so many places for VMs that are not there yet."""

    rooms: frozenset[str]
    places: int


def lay_out(
    shape: Shape, rooms: Iterable[Room], ranking: Mapping[str, int], *, image: str = ""
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
    shape: Shape,
    rooms: Collection[Room],
    types: Mapping[str, InstanceType],
    *,
    most: int,
    each: int,
    free: int,
) -> Kept | None:
    """What to keep; None when all of it would not be enough.

    `types` are the eligible ones, `rooms` all that there are, `most` how many ranks may be on any
    of them. `each` is how many ranks a further VM holds, and `free` how many further ones may be
    asked for now. A room of another type makes place for a VM when it is empty.
    """
    most = min(most, shape.nodes)
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
    # What leaves, or boots for others, makes place one day: then it is this gang's.
    others = (one.type not in types if one.open else not one.stays for one in rooms)
    later = sum(others) - len(wrong)
    return None if left > each * later else Kept(frozenset(kept), places)


def _holds(shape: Shape, room: Room) -> int:
    return min(room.free.holds(shape.need), max(0, room.places))


def _capacity(shape: Shape, room: Room, types: Mapping[str, InstanceType]) -> int:
    return types[room.type].resources.holds(shape.need)


def _taste(room: Room, image: str) -> tuple[bool, str]:
    return image not in room.images, room.id


def lacking(need: Resources, room: Room, types: Mapping[str, InstanceType]) -> float:
    """The share of a room's whole that must become free for `need` to fit, the most of any
    resource; 0.0 if it fits.
    """
    return max(0.0, (need - room.free).share_of(types[room.type].resources))


def free_share(room: Room, types: Mapping[str, InstanceType]) -> float:
    """The share of a room that is free, of what is taken most."""
    whole = types[room.type].resources
    return 1.0 - (whole - room.free).share_of(whole)


def least(rooms: Mapping[Signature, Mapping[str, None]], need: Resources) -> Signature | None:
    """Of those where a need fits the one with the least left; None when there is none."""
    best: tuple[tuple[int, int, int, int], Signature] | None = None
    for signature in rooms:
        free, places = signature
        if places > 0 and need.fits(free):
            left = (free.gpus, free.vcpus, free.ram, free.disk)
            if best is None or left < best[0]:
                best = left, signature
    return None if best is None else best[1]
