"""Free amounts of instances, ready or booting, and the tightest room for a need.

`cloud_planner` places single containers by `RoomIndex`, gangs by `gang_placement`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lading.core.resources import Resources
from lading.core.scheduling.instance_types import InstanceType

ANY = 1 << 30
"""A number of containers that stands for no limit."""
Signature = tuple[Resources, int]
"""The amount that is free in a room, and for how many more containers."""
_Table = dict[str, dict[Signature, dict[str, None]]]
"""Ids of rooms by type and signature."""


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
    """It is kept as it is, whatever happens."""


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
            left = (free.gpus, free.vcpus, free.ram, free.disk)
            if best is None or left < best[0]:
                best = left, signature
    return None if best is None else best[1]


def lacking(need: Resources, room: InstanceRoom, types: Mapping[str, InstanceType]) -> float:
    """The share of a room's whole that must become free for `need` to fit, the most of any
    resource; 0.0 if it fits.
    """
    return max(0.0, (need - room.free).share_of(types[room.type].resources))


def free_share(room: InstanceRoom, types: Mapping[str, InstanceType]) -> float:
    """The share of a room that is free, of what is taken most."""
    whole = types[room.type].resources
    return 1.0 - (whole - room.free).share_of(whole)
