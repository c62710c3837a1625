"""Free room on cloud VMs: the placement of a gang's ranks, and the tightest room for a container.

A room is a VM, ready or booting, with its free amounts. A gang that is larger than any one VM gets
rooms for all ranks, or none:

- Ranks go onto ready rooms before those that boot, onto those that hold most of them first, to use
  few VMs; of these to one that has the image. Rank 0 is on the first.
- Where no further VM may be created, rooms are kept for the first waiting gang, as many as hold all
  of it once they are empty; none if all rooms would not be enough.

`cloud_planner` places single containers by `RoomIndex`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from lading.core.resources import Resources
from lading.core.scheduling.instance_types import ContainerShape, InstanceType

ANY = 1 << 30
"""A number of containers that stands for no limit."""
Signature = tuple[Resources, int]
"""The amount that is free in a room, and for how many more containers."""
# Ids of rooms by type and signature.
_Table = dict[str, dict[Signature, dict[str, None]]]


@dataclass(frozen=True, slots=True)
class GangReservation:
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
    for count, room in able:
        found += [room.id] * min(count, shape.nodes - len(found))
    return tuple(found)


def keep(
    shape: ContainerShape,
    rooms: Collection[InstanceRoom],
    types: Mapping[str, InstanceType],
    *,
    most: int,
    each: int,
    free: int,
) -> GangReservation | None:
    """The rooms to keep for a gang; None when all of them would not be enough.

    `types` are the eligible ones, `rooms` all that there are, `most` how many ranks may be on any
    of them. `each` is how many ranks a further VM holds, and `free` how many further ones may be
    asked for now. An empty VM of another type can be replaced.
    """
    most = min(most, shape.nodes)
    right, wrong = _usable(shape, rooms, types, most)
    kept_rooms, left, places = set[str](), shape.nodes, 0
    for ranks, room in right:
        # First the rooms that are as free as they can be: to keep them costs nobody anything.
        if _holds(shape, room) >= ranks and left > 0:
            kept_rooms.add(room.id)
            left -= ranks
    # Then VMs that may still be created: a place in the quota is kept for each.
    while left > 0 and places < free:
        places, left = places + 1, left - each
    for ranks, room in right:
        # Then rooms that have to become empty first, and last VMs of other types, which have to be
        # replaced.
        if room.id not in kept_rooms and left > 0:
            kept_rooms.add(room.id)
            left -= ranks
    for room in wrong:
        if left > 0:
            kept_rooms.add(room.id)
            left -= each
    # Rooms that leave or boot for others free a place in the quota one day; those of other types
    # are counted above already.
    later = _later(rooms, types) - len(wrong)
    return None if left > each * later else GangReservation(frozenset(kept_rooms), places)


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
        (min(_capacity(shape, room, types), most), room)
        for room in rooms
        if room.open and room.type in types
    ]
    right.sort(
        key=lambda pair: (
            not pair[1].ready,
            pair[0] - min(_holds(shape, pair[1]), pair[0]),
            pair[1].id,
        )
    )
    wrong = [room for room in rooms if room.open and room.type not in types and room.ready]
    wrong.sort(key=lambda room: (not room.empty, room.id))
    return right, wrong


def _later(rooms: Collection[InstanceRoom], types: Mapping[str, InstanceType]) -> int:
    """Number of rooms that will make place for a VM of an eligible type: they leave, boot for
    others, or are of another type.
    """
    # A room that an operator holds (`stays`) never makes place.
    return sum(room.type not in types if room.open else not room.stays for room in rooms)


def _holds(shape: ContainerShape, room: InstanceRoom) -> int:
    return min(room.free.holds(shape.need), max(0, room.places))


def _capacity(shape: ContainerShape, room: InstanceRoom, types: Mapping[str, InstanceType]) -> int:
    return types[room.type].resources.holds(shape.need)


def _taste(room: InstanceRoom, image: str) -> tuple[bool, str]:
    return image not in room.images, room.id


@dataclass(frozen=True, slots=True)
class InstanceRoom:
    """A VM as the planner sees it: free amounts, places for further containers, whether containers
    can be started there now, whether it is empty.

    `images` are already on the VM.
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
    """An admin holds it: it stays as it is."""


class RoomIndex:
    """Rooms that containers may be given, by type and signature.

    Of a large fleet most VMs of a type have the same amount free: rooms of one signature are
    compared once.
    """

    def __init__(self) -> None:
        self._ready: _Table = {}
        self._coming: _Table = {}
        self._holding: dict[str, _Table] = {}

    def add(self, room: InstanceRoom) -> None:
        """Add a room that containers may be given."""
        for table in self._tables(room):
            # A dictionary in place of a set keeps the order: equal histories give equal plans.
            table.setdefault(room.type, {}).setdefault((room.free, room.places), {})[room.id] = None

    def remove(self, room: InstanceRoom) -> None:
        """Remove a room; `room` is equal to the one that was added."""
        for table in self._tables(room):
            # Empty signatures are removed: searches run over all of a type, and every placement
            # makes a new one.
            signatures = table[room.type]
            there = signatures[room.free, room.places]
            del there[room.id]
            if not there:
                del signatures[room.free, room.places]

    def tightest_ready(
        self, kinds: Iterable[InstanceType], need: Resources, *, image: str
    ) -> str | None:
        """The ready room of the first type with a fitting one, where the least is left: one that
        has the image, if there is any. None when no room fits.
        """
        return _tightest((self._holding.get(image, {}), self._ready), kinds, need)

    def tightest_coming(self, kinds: Iterable[InstanceType], need: Resources) -> str | None:
        """The tightest room that boots, by the same rule; no image is there yet."""
        return _tightest((self._coming,), kinds, need)

    def _tables(self, room: InstanceRoom) -> Iterator[_Table]:
        yield self._ready if room.ready else self._coming
        if room.ready:
            for image in room.images:
                yield self._holding.setdefault(image, {})


def _tightest(
    tables: tuple[_Table, ...], kinds: Iterable[InstanceType], need: Resources
) -> str | None:
    for kind in kinds:
        # The type counts before the image: types come in the order of price.
        for table in tables:
            rooms = table.get(kind.name, {})
            signature = _least(rooms, need)
            if signature is not None:
                return next(iter(rooms[signature]))
    return None


def _least(rooms: Mapping[Signature, Mapping[str, None]], need: Resources) -> Signature | None:
    """The room where a need fits with the least left; None without one."""
    best: tuple[tuple[int, int, int, int], Signature] | None = None
    for signature in rooms:
        free, places = signature
        if places > 0 and need.fits(free):
            # GPUs first: a container without one goes where the fewest are free, and leaves them to
            # those that need them.
            left = (free.gpus, free.vcpus, free.ram, free.disk)
            if best is None or left < best[0]:
                best = left, signature
    return None if best is None else best[1]


def nearest_to_free(
    shape: ContainerShape,
    rooms: Iterable[InstanceRoom],
    names: Collection[str],
    types: Mapping[str, InstanceType],
) -> InstanceRoom | None:
    """The ready room that lacks least for a container, of the eligible types `names`, or else the
    one of any type that is emptiest.
    """
    able = [room for room in rooms if room.ready and room.open]
    right = [room for room in able if room.type in names]
    # The id breaks ties, so that the choice does not move from pass to pass.
    if right:
        return min(right, key=lambda room: (lacking(shape.need, room, types), room.id))
    # None is of an eligible type: the emptiest is drained first, and then replaced.
    return min(able, key=lambda room: (-free_share(room, types), room.id), default=None)


def lacking(need: Resources, room: InstanceRoom, types: Mapping[str, InstanceType]) -> float:
    """The share of a room's whole that must become free for `need` to fit, the most of any
    resource; 0.0 if it fits.
    """
    # By share, not by amount: a processor and a GiB of RAM become free at different rates.
    return max(0.0, (need - room.free).share_of(types[room.type].resources))


def free_share(room: InstanceRoom, types: Mapping[str, InstanceType]) -> float:
    """The free share of a room, by the resource of which the largest share is taken."""
    whole = types[room.type].resources
    return 1.0 - (whole - room.free).share_of(whole)
