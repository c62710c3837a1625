"""Which container runs on which VM, and which VMs to make or let go (dispatch-contract B.4, F.5).

A planner keeps what it knows from one event to the next, so that a pass looks only at what may have changed; it does
nothing but decide. Its input is the waiting containers, the rooms (VMs, also those that are still asked for), and the
limits of the cloud; its output a `Decision`, which it takes for carried out. What was not is told by `add` and `put`.

Rules:

- Order: priority, highest first; among equals the one created first; then by uuid.
- A container goes to a ready VM of the cheapest eligible type that has room, to one of those that have its image if
  there is any, where it leaves the least. Else to one that boots, by a promise; else a VM of the cheapest eligible type
  that the cloud has is asked for. A promise holds until the VM is ready, or room elsewhere is ready sooner.
- What cannot be placed blocks only what has the same shape: smaller ones behind it go on.
- No starvation: the first container that waits because no further VM may be had gets a room of its own: the VM that
  lacks the least for it takes nothing else until it fits. Is there none of an eligible type, the emptiest VM of another
  type takes nothing more until it is empty, and makes place for the right one.
- While somebody waits for the quota, or for a VM since the cloud wants fewer calls, VMs of no use are let go at once.
- Supervisors (containers that run workflows) take part of the places only, so that what they wait for can run.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import heapify, heappop, heapreplace

from lading.core.cloudlimits import Limits
from lading.core.instances import InstanceType, Shape, eligible
from lading.core.sizing import Resources, total

Key = tuple[int, str, str]
_Signature = tuple[Resources, int]
_Table = dict[str, dict[_Signature, dict[str, None]]]
_ANY = 1 << 30


class Block(StrEnum):
    """Why nothing of a shape can be placed."""

    NO_TYPE = "no type"
    SUPERVISORS = "supervisors"
    QUOTA = "quota"
    RATE = "rate"
    BUSY = "busy"
    CAPACITY = "capacity"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A container that waits. `created_at` is the API's text, `image` what it runs in."""

    uuid: str
    priority: int
    created_at: str
    shape: Shape
    image: str = ""

    @property
    def key(self) -> Key:
        """Its place in the queue."""
        return -self.priority, self.created_at, self.uuid


@dataclass(frozen=True, slots=True)
class Room:
    """A VM: what is free there, for how many more containers, whether it can be started on now and is empty.

    `images` are those that need not be fetched there any more.
    """

    id: str
    type: str
    free: Resources
    ready: bool = False
    empty: bool = True
    places: int = _ANY
    open: bool = True
    images: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How to plan. `supervisor_fraction` of the most VMs are for supervisors; `most_containers` on one VM, 0 any.

    `group` names what shares the cloud's capacity with a type.
    """

    types: tuple[InstanceType, ...]
    price_factor: float = 1.5
    supervisor_fraction: float = 0.5
    most_containers: int = 0
    group: Callable[[InstanceType], str] = lambda one: f"{one.provider_type}{'-spot' if one.preemptible else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`starts`: container and room; `creates`: the room to be and its type. `retire`: empty rooms to let go.

    `unneeded`: rooms that are not ready and that nobody was promised.
    """

    starts: tuple[tuple[str, str], ...] = ()
    creates: tuple[tuple[str, str], ...] = ()
    retire: tuple[str, ...] = ()
    unneeded: tuple[str, ...] = ()


@dataclass(slots=True)
class _Pass:
    """What one pass has found out so far."""

    limits: Limits
    now: float
    most_supervisors: int
    left: int | None = None
    """How many more containers may be started or promised a room."""
    starts: list[tuple[str, str]] = field(default_factory=list)
    creates: list[tuple[str, str]] = field(default_factory=list)
    guarded: bool = False
    freed: bool = False


class Planner:
    """Plans for one cloud. `prefix` begins the names of the rooms that it asks for."""

    def __init__(self, rules: Rules, *, prefix: str = "vm-") -> None:
        self.rules = rules
        self._types = {one.name: one for one in rules.types}
        self._prefix = prefix
        self._last = 0
        self._waiting: dict[Shape, list[Key]] = {}
        self._promised: dict[Shape, list[Key]] = {}
        self._where: dict[str, tuple[Shape, Key]] = {}
        self._promises: dict[str, str] = {}
        self._due: dict[str, dict[str, None]] = {}
        self._rooms: dict[str, Room] = {}
        self._ready: _Table = {}
        self._coming: _Table = {}
        self._holding: dict[str, _Table] = {}
        self._images: dict[str, str] = {}
        self._eligible: dict[Shape, tuple[InstanceType, ...]] = {}
        self._blocked: dict[Shape, tuple[Block, str]] = {}
        self._guard: tuple[str, str] | None = None
        self._supervisors = 0

    # What is known.

    @property
    def waiting(self) -> Mapping[str, tuple[Shape, Key]]:
        """The containers that wait, those with a promise too."""
        return self._where

    @property
    def rooms(self) -> Mapping[str, Room]:
        """The rooms, with what is free once the promises are kept."""
        return self._rooms

    @property
    def promised(self) -> int:
        """How many containers were promised a room."""
        return len(self._promises)

    def promise(self, uuid: str) -> str:
        """The room that a container was promised, "" for none."""
        return self._promises.get(uuid, "")

    def blocked(self, shape: Shape) -> tuple[Block, str] | None:
        """Why nothing of a shape could be placed in the last pass; None when all was."""
        return self._blocked.get(shape)

    @property
    def guarded(self) -> tuple[str, str] | None:
        """The container that a room is kept for, and the room."""
        return self._guard

    def count_supervisors(self, running: int) -> None:
        """So many supervisors run now."""
        self._supervisors = running + sum(len(keys) for shape, keys in self._promised.items() if shape.supervisor)

    def add(self, one: Waiting) -> None:
        """A container waits; it may have waited before, otherwise."""
        self.remove(one.uuid)
        self._enter(one)
        insort(self._waiting.setdefault(one.shape, []), one.key)

    def extend(self, many: Iterable[Waiting]) -> None:
        """Many new containers wait."""
        for one in many:
            self._enter(one)
            self._waiting.setdefault(one.shape, []).append(one.key)
        for keys in self._waiting.values():
            keys.sort()

    def _enter(self, one: Waiting) -> None:
        self._where[one.uuid] = (one.shape, one.key)
        if one.image:
            self._images[one.uuid] = one.image

    def remove(self, uuid: str) -> None:
        """A container does not wait any more."""
        self._images.pop(uuid, None)
        found = self._where.pop(uuid, None)
        if found is None:
            return
        shape, key = found
        if uuid in self._promises:
            self._break_promise(uuid, shape)
            _take_out(self._promised, shape, key)
        else:
            _take_out(self._waiting, shape, key)
        self._unguard(uuid)

    def put(self, room: Room) -> None:
        """A room is there, or has changed. `free` does not count promises."""
        old = self._rooms.get(room.id)
        if old is not None:
            self._unlist(old)
        if room.ready or not room.open:
            self._release(room.id)
        taken = [self._where[uuid][0].need for uuid in self._due.get(room.id, ())]
        self._rooms[room.id] = replace(room, free=room.free - total(taken), places=room.places - len(taken))
        self._list(self._rooms[room.id])

    def drop(self, id: str) -> None:
        """A room is gone."""
        old = self._rooms.pop(id, None)
        if old is not None:
            self._unlist(old)
            self._release(id)
        if self._guard is not None and self._guard[1] == id:
            self._guard = None

    def eligible(self, shape: Shape) -> tuple[InstanceType, ...]:
        """The types for a shape, cheapest first."""
        found = self._eligible.get(shape)
        if found is None:
            found = self._eligible[shape] = eligible(shape, self.rules.types, price_factor=self.rules.price_factor)
        return found

    # Deciding.

    def decide(self, limits: Limits, *, now: float, left: int | None = None) -> Decision:
        """What to do now; no more than `left` containers are started or promised a room, None is any number."""
        share = max(1, int(limits.most * self.rules.supervisor_fraction)) if limits.most else _ANY
        one = _Pass(limits, now, share if self.rules.supervisor_fraction > 0 else _ANY, left)
        self._run(one)
        if one.freed:
            self._run(one)
        return Decision(
            starts=tuple(one.starts),
            creates=tuple(one.creates),
            retire=tuple(self._useless()) if self._lets_go(limits) else (),
            unneeded=tuple(id for id, room in self._rooms.items() if not room.ready and id not in self._due),
        )

    def _run(self, one: _Pass) -> None:
        kept, one.guarded = self._guard, False
        self._blocked.clear()
        heap = self._heads()
        heapify(heap)
        while heap:
            key, number, shape, promised = heap[0]
            keys = (self._promised if promised else self._waiting)[shape]
            if not self._settle(one, shape, key, promised=promised):
                heappop(heap)
                continue
            # What was promised in this pass may stand before it.
            index = bisect_left(keys, key)
            del keys[index]
            if index < len(keys):
                heapreplace(heap, (keys[index], number, shape, promised))
            else:
                heappop(heap)
        if not one.guarded:
            self._unguard()
        # Who was passed over may want the room that is not kept any more.
        one.freed = kept is not None and kept != self._guard

    def _heads(self) -> list[tuple[Key, int, Shape, bool]]:
        heads = [(keys[0], 2 * n, shape, False) for n, (shape, keys) in enumerate(self._waiting.items()) if keys]
        heads += [(keys[0], 2 * n + 1, shape, True) for n, (shape, keys) in enumerate(self._promised.items()) if keys]
        return heads

    def _settle(self, one: _Pass, shape: Shape, key: Key, *, promised: bool) -> bool:
        """Place the first of a shape; False when none of it can be placed. Its key is the caller's to remove."""
        if promised:
            return self._start(one, shape, key)
        if not self.eligible(shape):
            self._blocked[shape] = (Block.NO_TYPE, "")
            return False
        if shape.supervisor and self._supervisors >= one.most_supervisors:
            self._blocked[shape] = (Block.SUPERVISORS, f"{one.most_supervisors}")
            return False
        if one.left is not None and one.left <= 0:
            self._blocked[shape] = (Block.BUSY, "")
            return False
        placed = self._start(one, shape, key) or self._await(shape, key) or self._create(one, shape, key)
        if one.left is not None:
            one.left -= placed
        return placed

    def _start(self, one: _Pass, shape: Shape, key: Key) -> bool:
        uuid = key[2]
        tables = (self._holding.get(self._images.get(uuid, ""), {}), self._ready)
        room = self._kept_for(uuid, shape.need) or self._tightest(tables, shape)
        if room is None:
            return False
        self._images.pop(uuid, None)
        self._unguard(uuid)
        if uuid in self._promises:
            self._break_promise(uuid, shape)
        del self._where[uuid]
        self._supervisors += shape.supervisor
        self._unlist(room)
        self._rooms[room.id] = replace(room, free=room.free - shape.need, places=room.places - 1, empty=False)
        self._list(self._rooms[room.id])
        one.starts.append((uuid, room.id))
        return True

    def _await(self, shape: Shape, key: Key) -> bool:
        """Promise a room that is coming."""
        room = self._tightest((self._coming,), shape)
        if room is None:
            return False
        self._unguard(key[2])
        self._unlist(room)
        self._rooms[room.id] = changed = replace(room, free=room.free - shape.need, places=room.places - 1)
        self._list(changed)
        self._promises[key[2]] = room.id
        self._due.setdefault(room.id, {})[key[2]] = None
        self._supervisors += shape.supervisor
        insort(self._promised.setdefault(shape, []), key)
        return True

    def _create(self, one: _Pass, shape: Shape, key: Key) -> bool:
        """Ask for a VM and promise it."""
        why = one.limits.over_quota(len(self._rooms), now=one.now)
        if why:
            self._blocked[shape] = (Block.QUOTA, why)
            if not one.guarded:
                self._keep_room(key[2], shape)
                one.guarded = True
            return False
        why = one.limits.slowed(now=one.now)
        if why:
            self._blocked[shape] = (Block.RATE, why)
            return False
        for kind in self.eligible(shape):
            why = one.limits.lacks(self.rules.group(kind), now=one.now)
            if not why:
                self._last += 1
                room = Room(f"{self._prefix}{self._last}", kind.name, kind.resources, places=self._places())
                self._rooms[room.id] = room
                self._list(room)
                one.creates.append((room.id, kind.name))
                return self._await(shape, key)
        self._blocked[shape] = (Block.CAPACITY, why)
        return False

    def _places(self) -> int:
        return self.rules.most_containers or _ANY

    # Keeping a room for the head.

    def _kept_for(self, uuid: str, need: Resources) -> Room | None:
        if self._guard is None or self._where[uuid][1] > self._where[self._guard[0]][1]:
            return None
        room = self._rooms[self._guard[1]]
        fits = room.ready and need.fits(room.free) and room.places > 0
        return room if fits and room.type in {kind.name for kind in self.eligible(self._where[uuid][0])} else None

    def _keep_room(self, uuid: str, shape: Shape) -> None:
        if self._guard is not None and self._guard[0] == uuid:
            return
        self._unguard()
        names = {kind.name for kind in self.eligible(shape)}
        able = [room for room in self._rooms.values() if room.ready and room.open]
        right = [room for room in able if room.type in names]
        if right:
            best = min(right, key=lambda room: (max(0.0, self._lacking(shape.need, room)), room.id))
        elif able:
            best = min(able, key=lambda room: (-self._free_share(room), room.id))
        else:
            return
        self._unlist(best)
        self._guard = (uuid, best.id)

    def _lacking(self, need: Resources, room: Room) -> float:
        return (need - room.free).share_of(self._types[room.type].resources)

    def _free_share(self, room: Room) -> float:
        whole = self._types[room.type].resources
        return 1.0 - (whole - room.free).share_of(whole)

    def _unguard(self, uuid: str = "") -> None:
        """Keep a room for nobody any more; not if it is kept for another than `uuid`."""
        if self._guard is not None and uuid in ("", self._guard[0]):
            room = self._rooms[self._guard[1]]
            self._guard = None
            self._list(room)

    def _lets_go(self, limits: Limits) -> bool:
        waits = any(block in (Block.QUOTA, Block.RATE) for block, _ in self._blocked.values())
        return waits or (limits.rate_ban is not None and bool(self._promises))

    def _useless(self) -> Iterator[str]:
        return (id for id, room in self._rooms.items() if room.ready and room.empty and room.open)

    # The tables.

    def _tightest(self, tables: tuple[_Table, ...], shape: Shape) -> Room | None:
        """Of the cheapest type, in the first of the tables that has a fitting one, the room with the least left."""
        for kind in self.eligible(shape):
            for table in tables:
                rooms = table.get(kind.name, {})
                signature = _least(rooms, shape.need)
                if signature is not None:
                    return self._rooms[next(iter(rooms[signature]))]
        return None

    def _tables(self, room: Room) -> Iterator[_Table]:
        if not room.open or (self._guard is not None and self._guard[1] == room.id):
            return
        yield self._ready if room.ready else self._coming
        if room.ready:
            for image in room.images:
                yield self._holding.setdefault(image, {})

    def _list(self, room: Room) -> None:
        for table in self._tables(room):
            table.setdefault(room.type, {}).setdefault((room.free, room.places), {})[room.id] = None

    def _unlist(self, room: Room) -> None:
        for table in self._tables(room):
            signatures = table[room.type]
            there = signatures[room.free, room.places]
            del there[room.id]
            if not there:
                del signatures[room.free, room.places]

    def _break_promise(self, uuid: str, shape: Shape) -> None:
        """Give back what was promised; the keys are the caller's."""
        id = self._promises.pop(uuid)
        due = self._due[id]
        del due[uuid]
        if not due:
            del self._due[id]
        self._supervisors -= shape.supervisor
        room = self._rooms[id]
        self._unlist(room)
        self._rooms[id] = replace(room, free=room.free + shape.need, places=room.places + 1)
        self._list(self._rooms[id])

    def _release(self, id: str) -> None:
        """Those who were promised a room wait again."""
        for uuid in self._due.pop(id, ()):
            shape, key = self._where[uuid]
            del self._promises[uuid]
            self._supervisors -= shape.supervisor
            _take_out(self._promised, shape, key)
            insort(self._waiting.setdefault(shape, []), key)


def _least(rooms: Mapping[_Signature, Mapping[str, None]], need: Resources) -> _Signature | None:
    """Of those where a need fits the one with the least left."""
    best: tuple[tuple[int, int, int, int], _Signature] | None = None
    for signature in rooms:
        free, places = signature
        if places > 0 and need.fits(free):
            left = (free.gpus, free.vcpus, free.ram, free.disk)
            if best is None or left < best[0]:
                best = left, signature
    return None if best is None else best[1]


def _take_out(table: Mapping[Shape, list[Key]], shape: Shape, key: Key) -> None:
    keys: Sequence[Key] = table[shape]
    del table[shape][bisect_left(keys, key)]
