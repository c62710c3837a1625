"""Which container runs on which VM, and which VMs to make or let go (docs/spec/cloud, section
Planning).

A planner keeps what it knows from one event to the next, so that a pass looks only at what may have
changed; it does nothing but decide. Its input is the waiting containers, the rooms (VMs, also those
that are still asked for), and the limits of the cloud; its output a `Decision`, which it takes for
carried out. What was not is told by `add` and `put`.

Rules:

- Order: priority, highest first; among equals the one created first; then by uuid.
- A container goes to a ready VM of the cheapest eligible type that has room, to one of those that
  have its image if there is any, where it leaves the least. Else to one that boots, by a promise;
  else a VM of the cheapest eligible type that the cloud has is asked for. A promise holds until the
  VM is ready, or room elsewhere is ready sooner.
- What cannot be placed blocks only what has the same shape: smaller ones behind it go on.
- No starvation: the first container that waits because no further VM may be had gets a room of its
  own: the VM that lacks the least for it takes nothing else until it fits. Is there none of an
  eligible type, the emptiest VM of another type takes nothing more until it is empty, and makes
  place for the right one.
- While somebody waits for the quota, or for a VM since the cloud wants fewer calls, VMs of no use
  are let go at once.
- A gang that is spread over several VMs (`Shape.nodes`) gets room for all of its ranks or for none.
  What is free on VMs that are ready is kept for it while others boot for it, and given back when
  one of them does not come; it starts when all are ready. As the first that waits for the quota it
  has as many VMs kept as it needs (`gang_placement.keep`).
- Supervisors (containers that run workflows) take part of the places only, so that what they wait
  for can run.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heapreplace

from lading.core.resources import Resources, total
from lading.core.scheduling.cloud_limits import Limits
from lading.core.scheduling.cloud_plan import Block, Decision, Key, Pass, Rules, Waiting
from lading.core.scheduling.gang_placement import (
    ANY,
    Room,
    Signature,
    free_share,
    keep,
    lacking,
    lay_out,
    least,
)
from lading.core.scheduling.instance_types import InstanceType, Shape, eligible, machines

_Table = dict[str, dict[Signature, dict[str, None]]]
# Passes over the queue while containers free their places; the next plan continues.
_MOST_PASSES = 8


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
        self._promises: dict[str, tuple[str, ...]] = {}
        self._due: dict[str, dict[str, int]] = {}
        self._rooms: dict[str, Room] = {}
        self._ready: _Table = {}
        self._coming: _Table = {}
        self._holding: dict[str, _Table] = {}
        self._images: dict[str, str] = {}
        self._eligible: dict[Shape, tuple[InstanceType, ...]] = {}
        self._blocked: dict[Shape, tuple[Block, str]] = {}
        self._guard: tuple[str, frozenset[str]] | None = None
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
        """The room that a container was promised, of several the first that is not ready; "" for
        none.
        """
        rooms = self._promises.get(uuid, ("",))
        return next((id for id in rooms if id and not self._rooms[id].ready), rooms[0])

    def berths(self, uuid: str) -> tuple[str, ...]:
        """The rooms that were promised to the ranks of a gang."""
        return self._promises.get(uuid, ())

    def blocked(self, shape: Shape) -> tuple[Block, str] | None:
        """Why nothing of a shape could be placed in the last pass; None when all was."""
        return self._blocked.get(shape)

    @property
    def guarded(self) -> tuple[str, str] | None:
        """The container that a room is kept for, and the room, of several the first by name."""
        return None if self._guard is None else (self._guard[0], min(self._guard[1], default=""))

    def count_supervisors(self, running: int) -> None:
        """So many supervisors run now."""
        self._supervisors = running + sum(
            len(keys) for shape, keys in self._promised.items() if shape.supervisor
        )

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
            self._release(room.id, stays=room.open)
        due = self._due.get(room.id, {})
        taken = total(self._where[uuid][0].need.times(number) for uuid, number in due.items())
        self._rooms[room.id] = replace(
            room, free=room.free - taken, places=room.places - sum(due.values())
        )
        self._list(self._rooms[room.id])

    def drop(self, id: str) -> None:
        """A room is gone."""
        old = self._rooms.pop(id, None)
        if old is not None:
            self._unlist(old)
            self._release(id)
        if self._guard is not None and id in self._guard[1]:
            self._unguard()

    def eligible(self, shape: Shape) -> tuple[InstanceType, ...]:
        """The types for a shape, cheapest first."""
        found = self._eligible.get(shape)
        if found is None:
            rules = self.rules
            found = self._eligible[shape] = eligible(
                shape,
                rules.types,
                price_factor=rules.price_factor,
                most_containers=rules.most_containers,
            )
        return found

    # Deciding.

    def decide(self, limits: Limits, *, now: float, left: int | None = None) -> Decision:
        """What to do now; no more than `left` containers are started or promised a room, None is
        any number.
        """
        share = max(1, int(limits.most * self.rules.supervisor_fraction)) if limits.most else ANY
        one = Pass(limits, now, share if self.rules.supervisor_fraction > 0 else ANY, left)
        self._run(one)
        passes = 1
        while one.freed and passes < _MOST_PASSES:
            self._run(one)
            passes += 1
        return Decision(
            starts=tuple(one.starts),
            creates=tuple(one.creates),
            berths=one.berths,
            kept=tuple(self._kept()),
            retire=tuple(self._useless()) if self._lets_go(limits) else (),
            unneeded=tuple(
                id for id, room in self._rooms.items() if not room.ready and id not in self._due
            ),
        )

    def _run(self, one: Pass) -> None:
        kept, one.guarded, one.places, one.freed = self._guard, False, 0, False
        self._blocked.clear()
        heap = self._heads()
        heapify(heap)
        while heap:
            key, number, shape, promised = heap[0]
            keys = (self._promised if promised else self._waiting)[shape]
            settled = self._settle(one, shape, key, promised=promised)
            # What was promised in this pass may stand before it.
            index = bisect_left(keys, key)
            if settled:
                del keys[index]
            elif promised and shape.nodes > 1:
                # All rooms of the next gang may be ready.
                index += 1
            else:
                index = len(keys)
            if index < len(keys):
                heapreplace(heap, (keys[index], number, shape, promised))
            else:
                heappop(heap)
        if not one.guarded:
            self._unguard()
        # Who was passed over may want the room that is not kept any more.
        one.freed = one.freed or (kept is not None and kept != self._guard)

    def _heads(self) -> list[tuple[Key, int, Shape, bool]]:
        heads = [
            (keys[0], 2 * n, shape, False)
            for n, (shape, keys) in enumerate(self._waiting.items())
            if keys
        ]
        heads += [
            (keys[0], 2 * n + 1, shape, True)
            for n, (shape, keys) in enumerate(self._promised.items())
            if keys
        ]
        return heads

    def _settle(self, one: Pass, shape: Shape, key: Key, *, promised: bool) -> bool:
        """Place the first of a shape; False when none of it can be placed. Its key is the caller's
        to remove.
        """
        if promised:
            return self._start(one, shape, key)
        if not self.eligible(shape):
            self._blocked[shape] = (Block.NO_TYPE, "")
            return False
        kinds = self.eligible(shape) if shape.nodes > 1 else ()
        fewest = min(
            (machines(shape, kind, most_containers=self._places()) for kind in kinds), default=1
        )
        if one.limits.most and fewest > one.limits.most:
            self._blocked[shape] = (Block.TOO_MANY, f"{fewest}")
            return False
        if shape.supervisor and self._supervisors >= one.most_supervisors:
            self._blocked[shape] = (Block.SUPERVISORS, f"{one.most_supervisors}")
            return False
        if one.left is not None and one.left <= 0:
            self._blocked[shape] = (Block.BUSY, "")
            return False
        placed = (
            self._start(one, shape, key) or self._await(shape, key) or self._create(one, shape, key)
        )
        if one.left is not None:
            one.left -= placed
        return placed

    def _start(self, one: Pass, shape: Shape, key: Key) -> bool:
        uuid = key[2]
        if shape.nodes > 1:
            return self._start_gang(one, shape, uuid)
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
        self._rooms[room.id] = replace(
            room, free=room.free - shape.need, places=room.places - 1, empty=False
        )
        self._list(self._rooms[room.id])
        one.starts.append((uuid, room.id))
        return True

    def _await(self, shape: Shape, key: Key) -> bool:
        """Promise a room that is coming, to a gang also those that are there."""
        if shape.nodes > 1:
            rooms = self._berths_for(shape, key[2])
            return len(rooms) == shape.nodes and self._promise(shape, key, rooms)
        room = self._tightest((self._coming,), shape)
        return room is not None and self._promise(shape, key, (room.id,))

    def _promise(self, shape: Shape, key: Key, rooms: tuple[str, ...]) -> bool:
        self._unguard(key[2])
        for id, number in Counter(rooms).items():
            self._take(id, shape, number)
            self._due.setdefault(id, {})[key[2]] = number
        self._promises[key[2]] = rooms
        self._supervisors += shape.supervisor
        insort(self._promised.setdefault(shape, []), key)
        return True

    def _take(self, id: str, shape: Shape, number: int) -> None:
        """So many containers of a shape are there now, or are gone."""
        room = self._rooms[id]
        self._unlist(room)
        changed = replace(
            room, free=room.free - shape.need.times(number), places=room.places - number
        )
        self._rooms[id] = changed
        self._list(changed)

    def _create(self, one: Pass, shape: Shape, key: Key) -> bool:
        """Ask for a VM and promise it."""
        if shape.nodes > 1:
            return self._create_for_gang(one, shape, key)
        why = one.limits.over_quota(len(self._rooms) + one.places, now=one.now)
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
                return self._promise(shape, key, (self._ask_for(one, kind),))
        self._blocked[shape] = (Block.CAPACITY, why)
        return False

    def _ask_for(self, one: Pass, kind: InstanceType) -> str:
        self._last += 1
        room = Room(f"{self._prefix}{self._last}", kind.name, kind.resources, places=self._places())
        self._rooms[room.id] = room
        self._list(room)
        one.creates.append((room.id, kind.name))
        return room.id

    def _places(self) -> int:
        return self.rules.most_containers or ANY

    # Gangs over several rooms.

    def _berths_for(self, shape: Shape, uuid: str, *, ready: bool = False) -> tuple[str, ...]:
        """The room of each rank, of as many as there is room for; with what the gang was promised
        already.
        """
        mine = Counter(self._promises.get(uuid, ()))
        rooms = (
            replace(
                room,
                free=room.free + shape.need.times(mine[room.id]),
                places=room.places + mine[room.id],
            )
            if room.id in mine
            else room
            for room in self._rooms.values()
            if room.open
            and (room.ready or not ready)
            and (room.id in mine or not self._is_kept_from(uuid, room.id))
        )
        ranking = {kind.name: place for place, kind in enumerate(self.eligible(shape))}
        return lay_out(shape, rooms, ranking, image=self._images.get(uuid, ""))

    def _is_kept_from(self, uuid: str, id: str) -> bool:
        guard = self._guard
        return (
            guard is not None and id in guard[1] and self._where[uuid][1] > self._where[guard[0]][1]
        )

    def _start_gang(self, one: Pass, shape: Shape, uuid: str) -> bool:
        rooms = self._berths_for(shape, uuid, ready=True)
        if len(rooms) < shape.nodes:
            return False
        self._images.pop(uuid, None)
        self._unguard(uuid)
        if uuid in self._promises:
            one.freed = one.freed or self._promises[uuid] != rooms
            self._break_promise(uuid, shape)
        del self._where[uuid]
        self._supervisors += shape.supervisor
        for id, number in Counter(rooms).items():
            self._take(id, shape, number)
            self._rooms[id] = replace(self._rooms[id], empty=False)
        one.starts.append((uuid, rooms[0]))
        one.berths[uuid] = rooms
        return True

    def _create_for_gang(self, one: Pass, shape: Shape, key: Key) -> bool:
        """Ask for the VMs that are lacking, all or none of them."""
        rooms = self._berths_for(shape, key[2])
        there, lacking, scarce = len(self._rooms) + one.places, list[tuple[InstanceType, str]](), ""
        for kind in self.eligible(shape):
            lacks = one.limits.lacks(self.rules.group(kind), now=one.now)
            if lacks:
                scarce = lacks
                continue
            more = machines(
                replace(shape, nodes=shape.nodes - len(rooms)), kind, most_containers=self._places()
            )
            too_many = one.limits.too_many(there, more, now=one.now)
            if too_many:
                lacking.append((kind, too_many))
                continue
            slowed = one.limits.slowed(now=one.now)
            if slowed:
                self._blocked[shape] = (Block.RATE, slowed)
                return False
            for _ in range(more):
                self._ask_for(one, kind)
            return self._promise(shape, key, self._berths_for(shape, key[2]))
        if lacking and not one.guarded:
            one.guarded = self._keep_rooms(one, key[2], shape, lacking[0][0])
        self._blocked[shape] = (Block.QUOTA, lacking[0][1]) if lacking else (Block.CAPACITY, scarce)
        return False

    def _keep_rooms(self, one: Pass, uuid: str, shape: Shape, kind: InstanceType) -> bool:
        """Keep what a gang needs; False when that would be in vain."""
        free = one.limits.left(len(self._rooms), shape.nodes, now=one.now)
        types = {able.name: able for able in self.eligible(shape)}
        each = min(kind.resources.holds(shape.need), self._places())
        kept = keep(shape, self._rooms.values(), types, most=self._places(), each=each, free=free)
        if kept is None:
            return False
        if self._guard != (uuid, kept.rooms):
            self._unguard()
            for id in kept.rooms:
                self._unlist(self._rooms[id])
            self._guard = uuid, kept.rooms
        one.places = kept.places
        return True

    def _kept(self) -> Iterator[tuple[str, str]]:
        """The rooms that have to stay, each with the gang for which it does."""
        for keys in (keys for shape, keys in self._promised.items() if shape.nodes > 1):
            for _, _, uuid in keys:
                yield from (
                    (id, uuid)
                    for id in dict.fromkeys(self._promises[uuid])
                    if self._rooms[id].ready
                )
        if self._guard is not None:
            yield from (
                (id, self._guard[0])
                for id in self._guard[1]
                if self._is_kept_for_gang(self._rooms[id])
            )

    def _is_kept_for_gang(self, room: Room) -> bool:
        """Whether a gang that waits for the quota needs this room itself, and not only its
        place.
        """
        if self._guard is None or room.id not in self._guard[1]:
            return False
        shape, _ = self._where[self._guard[0]]
        return shape.nodes > 1 and any(kind.name == room.type for kind in self.eligible(shape))

    # Keeping a room for the head.

    def _kept_for(self, uuid: str, need: Resources) -> Room | None:
        if self._guard is None or self._where[uuid][1] > self._where[self._guard[0]][1]:
            return None
        names = {kind.name for kind in self.eligible(self._where[uuid][0])}
        rooms = (
            one
            for id in sorted(self._guard[1])
            if (one := self._rooms[id]).ready and one.type in names
        )
        return next((one for one in rooms if need.fits(one.free) and one.places > 0), None)

    def _keep_room(self, uuid: str, shape: Shape) -> None:
        if self._guard is not None and self._guard[0] == uuid:
            return
        self._unguard()
        names = {kind.name for kind in self.eligible(shape)}
        able = [room for room in self._rooms.values() if room.ready and room.open]
        right = [room for room in able if room.type in names]
        if right:
            best = min(right, key=lambda room: (lacking(shape.need, room, self._types), room.id))
        elif able:
            best = min(able, key=lambda room: (-free_share(room, self._types), room.id))
        else:
            return
        self._unlist(best)
        self._guard = uuid, frozenset((best.id,))

    def _unguard(self, uuid: str = "") -> None:
        """Keep a room for nobody any more; not if it is kept for another than `uuid`."""
        if self._guard is not None and uuid in ("", self._guard[0]):
            rooms, self._guard = self._guard[1], None
            for id in rooms & self._rooms.keys():
                self._list(self._rooms[id])

    def _lets_go(self, limits: Limits) -> bool:
        waits = any(block in (Block.QUOTA, Block.RATE) for block, _ in self._blocked.values())
        return waits or (limits.rate_ban is not None and bool(self._promises))

    def _useless(self) -> Iterator[str]:
        return (
            id
            for id, room in self._rooms.items()
            if room.ready
            and room.empty
            and room.open
            and id not in self._due
            and not self._is_kept_for_gang(room)
        )

    # The tables.

    def _tightest(self, tables: tuple[_Table, ...], shape: Shape) -> Room | None:
        """Of the cheapest type, in the first of the tables that has a fitting one, the room with
        the least left.
        """
        for kind in self.eligible(shape):
            for table in tables:
                rooms = table.get(kind.name, {})
                signature = least(rooms, shape.need)
                if signature is not None:
                    return self._rooms[next(iter(rooms[signature]))]
        return None

    def _tables(self, room: Room) -> Iterator[_Table]:
        if not room.open or (self._guard is not None and room.id in self._guard[1]):
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

    def _break_promise(self, uuid: str, shape: Shape, *, but: str = "") -> None:
        """Give back what was promised, `but` one room that is not what it was; the keys are the
        caller's.
        """
        for id, number in Counter(self._promises.pop(uuid)).items():
            due = self._due[id]
            del due[uuid]
            if not due:
                del self._due[id]
            if id != but:
                self._take(id, shape, -number)
        self._supervisors -= shape.supervisor

    def _release(self, id: str, *, stays: bool = False) -> None:
        """Those who were promised a room wait again; not a gang when it `stays`."""
        for uuid in tuple(self._due.get(id, ())):
            shape, key = self._where[uuid]
            if stays and shape.nodes > 1:
                continue
            self._break_promise(uuid, shape, but=id)
            _take_out(self._promised, shape, key)
            insort(self._waiting.setdefault(shape, []), key)


def _take_out(table: Mapping[Shape, list[Key]], shape: Shape, key: Key) -> None:
    keys: Sequence[Key] = table[shape]
    del table[shape][bisect_left(keys, key)]
