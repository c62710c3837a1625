"""The rooms of a cloud planner: their free amounts, the promises of them, and those that are kept.

- A room that was promised to a waiting container counts as taken by it.
- Rooms that are kept for the first container of the queue are given to no other one.

The table decides nothing: `cloud_planner` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from lading.core.resources import Resources, total
from lading.core.scheduling.instance_rooms import InstanceRoom, RoomIndex
from lading.core.scheduling.instance_types import ContainerShape, InstanceType


@dataclass(frozen=True, slots=True)
class _Promise:
    """A container that was promised rooms; `rooms` has the room of each of its ranks."""

    shape: ContainerShape
    rooms: tuple[str, ...]


class RoomTable:
    """Rooms by id. `rooms` has the amounts that are free once the promises are kept."""

    def __init__(self) -> None:
        self._rooms: dict[str, InstanceRoom] = {}
        self._index = RoomIndex()
        self._promises: dict[str, _Promise] = {}
        self._due: dict[str, dict[str, int]] = {}
        self.kept_for = ""
        """The container that rooms are kept for; "" if none are."""
        self.kept_ids: frozenset[str] = frozenset()
        """The rooms that are kept for it; there may be none that could be."""

    @property
    def rooms(self) -> Mapping[str, InstanceRoom]:
        """All rooms by id."""
        return self._rooms

    def put(self, room: InstanceRoom) -> None:
        """Add or change a room. `free` does not count promises."""
        due = self._due.get(room.id, {})
        taken = total(self._promises[uuid].shape.need.times(due[uuid]) for uuid in due)
        self._replace(replace(room, free=room.free - taken, places=room.places - sum(due.values())))

    def drop(self, id: str) -> None:
        """Remove a room that nothing was promised; nothing is kept any more if it was."""
        room = self._rooms.pop(id, None)
        if room is not None and self._is_given(room):
            self._index.remove(room)
        if id in self.kept_ids:
            self.stop_keeping()

    def take(self, id: str, shape: ContainerShape, number: int = 1) -> None:
        """Count `number` further containers of a shape in a room; fewer if it is negative."""
        room = self._rooms[id]
        self._replace(
            replace(room, free=room.free - shape.need.times(number), places=room.places - number)
        )

    def start(self, rooms: Iterable[str], shape: ContainerShape) -> None:
        """Count a container that starts now; `rooms` has the room of each of its ranks."""
        for id, number in Counter(rooms).items():
            self.take(id, shape, number)
            # No room of the index is found by whether it is empty.
            self._rooms[id] = replace(self._rooms[id], empty=False)

    def tightest_ready(
        self, kinds: Iterable[InstanceType], need: Resources, *, image: str = ""
    ) -> InstanceRoom | None:
        """The ready room of the cheapest type that fits most tightly (`RoomIndex`)."""
        id = self._index.tightest_ready(kinds, need, image=image)
        return None if id is None else self._rooms[id]

    def tightest_coming(self, kinds: Iterable[InstanceType], need: Resources) -> str | None:
        """The room that boots and fits most tightly (`RoomIndex`)."""
        return self._index.tightest_coming(kinds, need)

    # Promises.

    @property
    def promised(self) -> Collection[str]:
        """The containers that were promised rooms."""
        return self._promises.keys()

    def promised_rooms(self, uuid: str) -> tuple[str, ...]:
        """The room that was promised to each rank of a container; none without a promise."""
        promise = self._promises.get(uuid)
        return () if promise is None else promise.rooms

    def due(self, id: str) -> tuple[str, ...]:
        """The containers that were promised a room."""
        return tuple(self._due.get(id, ()))

    def promise(self, uuid: str, shape: ContainerShape, rooms: tuple[str, ...]) -> None:
        """Promise rooms to the ranks of a container."""
        for id, number in Counter(rooms).items():
            self.take(id, shape, number)
            self._due.setdefault(id, {})[uuid] = number
        self._promises[uuid] = _Promise(shape, rooms)

    def break_promise(self, uuid: str, *, but: str = "") -> ContainerShape:
        """Release the rooms that were promised to a container, except the room `but`, which is
        about to change; its shape.
        """
        promise = self._promises.pop(uuid)
        for id, number in Counter(promise.rooms).items():
            due = self._due[id]
            del due[uuid]
            if not due:
                del self._due[id]
            if id != but:
                self.take(id, promise.shape, -number)
        return promise.shape

    # Rooms that are kept.

    def keep(self, uuid: str, ids: frozenset[str]) -> None:
        """Keep open rooms for a container, and no others any more."""
        if (uuid, ids) == (self.kept_for, self.kept_ids):
            return
        self.stop_keeping()
        for id in ids:
            self._index.remove(self._rooms[id])
        self.kept_for, self.kept_ids = uuid, ids

    def stop_keeping(self, uuid: str = "") -> None:
        """Keep no rooms any more, unless they are kept for another container than `uuid`."""
        if uuid in ("", self.kept_for):
            released, self.kept_for, self.kept_ids = self.kept_ids, "", frozenset()
            # A set has no order: equal inputs must give equal plans.
            for id in sorted(released & self._rooms.keys()):
                if self._is_given(self._rooms[id]):
                    self._index.add(self._rooms[id])

    def kept_rooms(self) -> Iterator[InstanceRoom]:
        """The rooms that are kept, by name: equal inputs must give equal plans."""
        return (self._rooms[id] for id in sorted(self.kept_ids))

    def _is_given(self, room: InstanceRoom) -> bool:
        """Whether a room is open to any container: it has capacity, and is not kept for one."""
        return room.open and room.id not in self.kept_ids

    def _replace(self, room: InstanceRoom) -> None:
        old = self._rooms.get(room.id)
        if old is not None and self._is_given(old):
            self._index.remove(old)
        self._rooms[room.id] = room
        if self._is_given(room):
            self._index.add(room)
