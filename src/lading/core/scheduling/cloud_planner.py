"""Plans for cloud VMs: which container runs on which VM, which VMs to create or remove.

A planner keeps its tables from one event to the next, so that a pass examines only possible
changes; it only decides. Its input is the waiting containers, the rooms (VMs, also requested ones),
and the limits of the cloud. Its output is a `CloudPlan`, which it assumes to be carried out; `add`
and `put` correct it where that failed.

Rules (docs/spec/cloud, section Planning):

- Order: priority, highest first; among equals the one created first; then by uuid.
- A container goes to a ready VM of the cheapest eligible type that has room, if possible to one
  that has its image, and there to the one with the least room left. Without a ready VM it is
  promised a booting one; else a VM of the cheapest eligible type that the cloud has is requested. A
  promise holds until the VM is ready, or room elsewhere is ready sooner.
- A container that cannot be placed blocks only containers of its shape: smaller ones behind it are
  placed.
- No starvation: the first container that waits because no further VM may be created gets a room of
  its own: the VM that lacks the least for it takes nothing else until it fits. If there is none of
  an eligible type, the emptiest VM of another type takes nothing more until it is empty, and is
  then replaced by one of the right type.
- While a container waits for the quota or for the rate of calls, unused VMs are removed at once.
- A gang that is spread over several VMs (`ContainerShape.nodes`) gets room for all of its ranks or
  for none. Free amounts of ready VMs are kept for it while others boot for it, and released when
  one of them does not come; it starts when all are ready. As the first that waits for the quota it
  has as many VMs kept as it needs (`instance_rooms.keep`).
- Workflow runners take part of the places only, so that the containers for which they wait can run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heapify, heappop, heapreplace

from msgspec import structs

from lading.core.resources import Resources, total
from lading.core.scheduling.cloud_limits import (
    BlockReason,
    CloudPlan,
    CloudQueue,
    CloudRules,
    Limits,
    PlanningPass,
)
from lading.core.scheduling.instance_rooms import (
    ANY,
    InstanceRoom,
    RoomIndex,
    keep,
    lay_out,
    nearest_to_free,
)
from lading.core.scheduling.instance_types import (
    ContainerShape,
    InstanceType,
    machines,
    on_machine,
)
from lading.core.scheduling.planning import Place, StartDecision, TrackedContainer

# A pass is repeated while it frees rooms that were kept. Each can free those of one gang, so that
# two or three do; the limit only bounds the time of a step; the next step continues.
_MOST_PASSES = 8


class Planner:
    """Plans for one cloud. `prefix` begins the names of the rooms that it asks for."""

    def __init__(self, rules: CloudRules, *, prefix: str = "vm-") -> None:
        self.rules = rules
        self._types = {one.name: one for one in rules.types}
        self._prefix = prefix
        self._last = 0
        self._queue = CloudQueue()
        self._promises: dict[str, tuple[str, ...]] = {}
        self._due: dict[str, dict[str, int]] = {}
        self._rooms: dict[str, InstanceRoom] = {}
        self._index = RoomIndex()
        self._followed: Mapping[str, TrackedContainer] = {}
        self._eligible: dict[ContainerShape, tuple[InstanceType, ...]] = {}
        self._blocked: dict[ContainerShape, tuple[BlockReason, str]] = {}
        self._guard: tuple[str, frozenset[str]] | None = None
        self._workflows = 0

    # The present state, as far as it is known.

    @property
    def waiting(self) -> Mapping[str, tuple[ContainerShape, Place]]:
        """The waiting containers, including those with a promise."""
        return self._queue.where

    @property
    def rooms(self) -> Mapping[str, InstanceRoom]:
        """The rooms, with the amounts that are free once the promises are kept."""
        return self._rooms

    @property
    def promised(self) -> int:
        """Number of containers that were promised a room."""
        return len(self._promises)

    def promise(self, uuid: str) -> str:
        """The room that a container was promised, of several the first that is not ready; "" for
        none.
        """
        rooms = self._promises.get(uuid, ("",))
        return next((id for id in rooms if id and not self._rooms[id].ready), rooms[0])

    def promised_rooms(self, uuid: str) -> tuple[str, ...]:
        """The rooms that were promised to the ranks of a gang."""
        return self._promises.get(uuid, ())

    def blocked(self, shape: ContainerShape) -> tuple[BlockReason, str] | None:
        """Reason that no container of a shape could be placed in the last pass; None if all
        were.
        """
        return self._blocked.get(shape)

    @property
    def guarded(self) -> tuple[str, str] | None:
        """The container that a room is kept for, and the room, of several the first by name."""
        return None if self._guard is None else (self._guard[0], min(self._guard[1], default=""))

    def count_workflows(self, running: int) -> None:
        """Set the number of running containers that run workflows."""
        self._workflows = running + self._queue.count_promised_workflows()

    def follow(self, waiting: Iterable[TrackedContainer]) -> None:
        """Set the waiting containers; takes time by the number of changes."""
        wanted = {one.uuid: one for one in waiting}
        for uuid in [one for one in self._queue.where if one not in wanted]:
            self.remove(uuid)
        for uuid, one in wanted.items():
            before = self._followed.get(uuid)
            if uuid not in self._queue.where or (before is not one and before != one):
                self.add(one, self.shape_of(one))
        self._followed = wanted

    def shape_of(self, container: TrackedContainer) -> ContainerShape:
        """Shape by which a container is planned: a gang whole where a type can hold it, else by its
        ranks.
        """
        extra_ram = self.rules.extra_ram
        whole = ContainerShape(
            need=on_machine(container.need, extra_ram=extra_ram),
            preemptible=container.preemptible,
            gpu=container.gpu,
            runs_workflow=container.runs_workflow,
        )
        if container.nodes == 1 or self.eligible(whole):
            return whole
        each = on_machine(container.each, extra_ram=extra_ram)
        return structs.replace(whole, need=each, nodes=container.nodes)

    def add(self, container: TrackedContainer, shape: ContainerShape) -> None:
        """Add or change a container that waits."""
        self.remove(container.uuid)
        self._queue.add(container, shape)

    def extend(self, many: Iterable[tuple[TrackedContainer, ContainerShape]]) -> None:
        """Add many new containers that wait."""
        self._queue.extend(many)

    def remove(self, uuid: str) -> None:
        """Remove a container that no longer waits."""
        if uuid in self._queue.where:
            promised = uuid in self._promises
            if promised:
                self._break_promise(uuid, self._queue.where[uuid][0])
            self._queue.remove(uuid, promised=promised)
            self._unguard(uuid)

    def put(self, room: InstanceRoom) -> None:
        """Add or change a room. `free` does not count promises."""
        old = self._rooms.get(room.id)
        if old is not None:
            self._unlist(old)
        if room.ready or not room.open:
            self._release(room.id, stays=room.open)
        due = self._due.get(room.id, {})
        taken = total(self._queue.where[uuid][0].need.times(number) for uuid, number in due.items())
        self._rooms[room.id] = replace(
            room, free=room.free - taken, places=room.places - sum(due.values())
        )
        self._list(self._rooms[room.id])

    def drop(self, id: str) -> None:
        """Remove a room."""
        old = self._rooms.pop(id, None)
        if old is not None:
            self._unlist(old)
            self._release(id)
        if self._guard is not None and id in self._guard[1]:
            self._unguard()

    def has_room(self, shape: ContainerShape) -> bool:
        """Whether a ready room holds a container of this shape."""
        return self._index.tightest_ready(self.eligible(shape), shape.need, image="") is not None

    def eligible(self, shape: ContainerShape) -> tuple[InstanceType, ...]:
        """The types for a shape, cheapest first."""
        found = self._eligible.get(shape)
        if found is None:
            found = self._eligible[shape] = self.rules.eligible(shape)
        return found

    # Deciding.

    def decide(self, limits: Limits, *, now: float, left: int | None = None) -> CloudPlan:
        """Decide. At most `left` containers are started or promised a room; None is any number."""
        share = max(1, int(limits.most * self.rules.workflow_fraction)) if limits.most else ANY
        one = PlanningPass(limits, now, share if self.rules.workflow_fraction > 0 else ANY, left)
        self._run(one)
        passes = 1
        while one.freed and passes < _MOST_PASSES:
            self._run(one)
            passes += 1
        return CloudPlan(
            starts=tuple(one.starts),
            creates=tuple(one.creates),
            kept=tuple(self._kept()),
            retire=tuple(self._useless()) if self._lets_go(limits) else (),
            unneeded=tuple(
                id for id, room in self._rooms.items() if not room.ready and id not in self._due
            ),
        )

    def _run(self, one: PlanningPass) -> None:
        kept, one.guarded, one.places, one.freed = self._guard, False, 0, False
        self._blocked.clear()
        heap = self._queue.heads()
        heapify(heap)
        while heap:
            place, number, shape, promised = heap[0]
            places = (self._queue.promised if promised else self._queue.waiting)[shape]
            settled = self._settle(one, shape, place, promised=promised)
            # Containers that were promised a room in this pass may stand before it.
            index = bisect_left(places, place)
            if settled:
                del places[index]
            elif promised and shape.nodes > 1:
                # All rooms of the next gang may be ready.
                index += 1
            else:
                # A container that cannot be placed blocks its shape: none of it is tried again.
                index = len(places)
            if index < len(places):
                heapreplace(heap, (places[index], number, shape, promised))
            else:
                heappop(heap)
        if not one.guarded:
            self._unguard()
        # A container that was passed over may want the room that is not kept any more.
        one.freed = one.freed or (kept is not None and kept != self._guard)

    def _settle(
        self, one: PlanningPass, shape: ContainerShape, place: Place, *, promised: bool
    ) -> bool:
        """Place the first of a shape; False when none of it can be placed. The caller removes it
        from the queue.
        """
        if promised:
            return self._start(one, shape, place)
        if (refusal := self._refusal(one, shape)) is not None:
            self._blocked[shape] = refusal
            return False
        placed = (
            self._start(one, shape, place)
            or self._await(shape, place)
            or self._create(one, shape, place)
        )
        if one.left is not None:
            one.left -= placed
        return placed

    def _refusal(self, one: PlanningPass, shape: ContainerShape) -> tuple[BlockReason, str] | None:
        """Reason why no container of a shape can be placed now in any room, or None."""
        if not self.eligible(shape):
            return (BlockReason.NO_TYPE, "")
        kinds = self.eligible(shape) if shape.nodes > 1 else ()
        fewest = min(
            (machines(shape, kind, most_containers=self._places()) for kind in kinds), default=1
        )
        if one.limits.most and fewest > one.limits.most:
            return (BlockReason.TOO_MANY, f"{fewest}")
        if shape.runs_workflow and self._workflows >= one.most_workflows:
            return (BlockReason.WORKFLOWS, f"{one.most_workflows}")
        if one.left is not None and one.left <= 0:
            return (BlockReason.BUSY, "")
        return None

    def _start(self, one: PlanningPass, shape: ContainerShape, place: Place) -> bool:
        uuid = place[2]
        if shape.nodes > 1:
            return self._start_gang(one, shape, uuid)
        room = self._kept_for(uuid, shape.need) or self._tightest_ready(uuid, shape)
        if room is None:
            return False
        self._unguard(uuid)
        one.freed = one.freed or self._is_kept_any((room.id,))
        if uuid in self._promises:
            # It starts elsewhere than promised: another pass gives others the room that it leaves.
            one.freed = True
            self._break_promise(uuid, shape)
        self._queue.start(uuid)
        self._workflows += shape.runs_workflow
        self._unlist(room)
        self._rooms[room.id] = replace(
            # Counted at once, so that the next container of this pass is not given the same room.
            room,
            free=room.free - shape.need,
            places=room.places - 1,
            empty=False,
        )
        self._list(self._rooms[room.id])
        one.starts.append(StartDecision(uuid, room.id))
        return True

    def _await(self, shape: ContainerShape, place: Place) -> bool:
        """Promise a room that is not ready; a gang is also promised ready ones."""
        if shape.nodes > 1:
            rooms = self._rooms_for_gang(shape, place[2])
            return len(rooms) == shape.nodes and self._promise(shape, place, rooms)
        id = self._index.tightest_coming(self.eligible(shape), shape.need)
        return id is not None and self._promise(shape, place, (id,))

    def _promise(self, shape: ContainerShape, place: Place, rooms: tuple[str, ...]) -> bool:
        self._unguard(place[2])
        for id, number in Counter(rooms).items():
            self._take(id, shape, number)
            self._due.setdefault(id, {})[place[2]] = number
        self._promises[place[2]] = rooms
        self._workflows += shape.runs_workflow
        self._queue.promise(shape, place)
        return True

    def _take(self, id: str, shape: ContainerShape, number: int) -> None:
        """Count containers of a shape that came or went."""
        room = self._rooms[id]
        self._unlist(room)
        changed = replace(
            room, free=room.free - shape.need.times(number), places=room.places - number
        )
        self._rooms[id] = changed
        self._list(changed)

    def _create(self, one: PlanningPass, shape: ContainerShape, place: Place) -> bool:
        """Ask for a VM and promise it."""
        if shape.nodes > 1:
            return self._create_for_gang(one, shape, place)
        why = one.limits.over_quota(len(self._rooms) + one.places, now=one.now)
        if why:
            self._blocked[shape] = (BlockReason.QUOTA, why)
            if not one.guarded:
                self._keep_room(place[2], shape)
                one.guarded = True
            return False
        why = one.limits.slowed(now=one.now)
        if why:
            self._blocked[shape] = (BlockReason.RATE, why)
            return False
        for kind in one.limits.ordered(self.eligible(shape), now=one.now):
            why = one.limits.lacks(self.rules.group(kind), now=one.now)
            if not why:
                return self._promise(shape, place, (self._ask_for(one, kind),))
        self._blocked[shape] = (BlockReason.CAPACITY, why)
        return False

    def _ask_for(self, one: PlanningPass, kind: InstanceType) -> str:
        self._last += 1
        room = InstanceRoom(
            f"{self._prefix}{self._last}", kind.name, kind.resources, places=self._places()
        )
        self._rooms[room.id] = room
        self._list(room)
        one.creates.append((room.id, kind.name))
        return room.id

    def _places(self) -> int:
        return self.rules.most_containers or ANY

    # Gangs over several rooms.

    def _rooms_for_gang(
        self, shape: ContainerShape, uuid: str, *, ready: bool = False
    ) -> tuple[str, ...]:
        """Choose a room for as many ranks as possible; rooms promised to the gang count as free."""
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
        return lay_out(shape, rooms, ranking, image=self._queue.images.get(uuid, ""))

    def _is_kept_from(self, uuid: str, id: str) -> bool:
        guard = self._guard
        return (
            guard is not None
            and id in guard[1]
            and self._queue.where[uuid][1] > self._queue.where[guard[0]][1]
        )

    def _start_gang(self, one: PlanningPass, shape: ContainerShape, uuid: str) -> bool:
        rooms = self._rooms_for_gang(shape, uuid, ready=True)
        if len(rooms) < shape.nodes:
            return False
        self._unguard(uuid)
        one.freed = one.freed or self._is_kept_any(rooms)
        if uuid in self._promises:
            one.freed = one.freed or self._promises[uuid] != rooms
            self._break_promise(uuid, shape)
        self._queue.start(uuid)
        self._workflows += shape.runs_workflow
        for id, number in Counter(rooms).items():
            self._take(id, shape, number)
            self._rooms[id] = replace(self._rooms[id], empty=False)
        one.starts.append(StartDecision(uuid, rooms[0], others=rooms[1:]))
        return True

    def _create_for_gang(self, one: PlanningPass, shape: ContainerShape, place: Place) -> bool:
        """Ask for the VMs that are lacking, all or none of them."""
        rooms = self._rooms_for_gang(shape, place[2])
        there, lacking, scarce = len(self._rooms) + one.places, list[tuple[InstanceType, str]](), ""
        for kind in one.limits.ordered(self.eligible(shape), now=one.now):
            lacks = one.limits.lacks(self.rules.group(kind), now=one.now)
            if lacks:
                scarce = lacks
                continue
            rest = structs.replace(shape, nodes=shape.nodes - len(rooms))
            more = machines(rest, kind, most_containers=self._places())
            too_many = one.limits.too_many(there, more, now=one.now)
            if too_many:
                lacking.append((kind, too_many))
                continue
            slowed = one.limits.slowed(now=one.now)
            if slowed:
                self._blocked[shape] = (BlockReason.RATE, slowed)
                return False
            for _ in range(more):
                self._ask_for(one, kind)
            return self._promise(shape, place, self._rooms_for_gang(shape, place[2]))
        # Rooms are kept for the quota alone: a VM that leaves makes place for one of the gang,
        # which helps nobody where the cloud has none to give.
        if lacking and not one.guarded:
            one.guarded = self._keep_rooms(one, place[2], shape, lacking[0][0])
        self._blocked[shape] = (
            (BlockReason.QUOTA, lacking[0][1]) if lacking else (BlockReason.CAPACITY, scarce)
        )
        return False

    def _keep_rooms(
        self, one: PlanningPass, uuid: str, shape: ContainerShape, kind: InstanceType
    ) -> bool:
        """Keep the rooms that a gang needs; False if even all of them are not enough."""
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
        for places in (places for shape, places in self._queue.promised.items() if shape.nodes > 1):
            for _, _, uuid in places:
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

    def _is_kept_for_gang(self, room: InstanceRoom) -> bool:
        """Whether a gang that waits for the quota needs this room itself, and not only its
        place.
        """
        if self._guard is None or room.id not in self._guard[1]:
            return False
        shape, _ = self._queue.where[self._guard[0]]
        return shape.nodes > 1 and any(kind.name == room.type for kind in self.eligible(shape))

    # Keeping a room for the head.

    def _kept_for(self, uuid: str, need: Resources) -> InstanceRoom | None:
        if self._guard is None or self._queue.where[uuid][1] > self._queue.where[self._guard[0]][1]:
            return None
        names = {kind.name for kind in self.eligible(self._queue.where[uuid][0])}
        rooms = (
            one
            # A set has no order: equal inputs must give equal plans.
            for id in sorted(self._guard[1])
            if (one := self._rooms[id]).ready and one.type in names
        )
        return next((one for one in rooms if need.fits(one.free) and one.places > 0), None)

    def _is_kept_any(self, rooms: Iterable[str]) -> bool:
        """Whether one of the rooms is kept; a start there can make another one nearer to free."""
        return self._guard is not None and not self._guard[1].isdisjoint(rooms)

    def _keep_room(self, uuid: str, shape: ContainerShape) -> None:
        if self._guard is not None and self._guard[0] == uuid:
            return
        self._unguard()
        names = {kind.name for kind in self.eligible(shape)}
        best = nearest_to_free(shape, self._rooms.values(), names, self._types)
        if best is not None:
            self._unlist(best)
            self._guard = uuid, frozenset((best.id,))

    def _unguard(self, uuid: str = "") -> None:
        """Stop keeping a room, unless it is kept for another container than `uuid`."""
        if self._guard is not None and uuid in ("", self._guard[0]):
            rooms, self._guard = self._guard[1], None
            for id in rooms & self._rooms.keys():
                self._list(self._rooms[id])

    def _lets_go(self, limits: Limits) -> bool:
        waits = any(
            block in (BlockReason.QUOTA, BlockReason.RATE) for block, _ in self._blocked.values()
        )
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

    def _tightest_ready(self, uuid: str, shape: ContainerShape) -> InstanceRoom | None:
        image = self._queue.images.get(uuid, "")
        id = self._index.tightest_ready(self.eligible(shape), shape.need, image=image)
        return None if id is None else self._rooms[id]

    def _is_given(self, room: InstanceRoom) -> bool:
        """Whether the room is open to any container: it has capacity, and is not kept for one."""
        return room.open and (self._guard is None or room.id not in self._guard[1])

    def _list(self, room: InstanceRoom) -> None:
        if self._is_given(room):
            self._index.add(room)

    def _unlist(self, room: InstanceRoom) -> None:
        if self._is_given(room):
            self._index.remove(room)

    def _break_promise(self, uuid: str, shape: ContainerShape, *, but: str = "") -> None:
        """Release the promised rooms, except the room `but`, which has changed; places are left to
        the caller.
        """
        for id, number in Counter(self._promises.pop(uuid)).items():
            due = self._due[id]
            del due[uuid]
            if not due:
                del self._due[id]
            if id != but:
                self._take(id, shape, -number)
        self._workflows -= shape.runs_workflow

    def _release(self, id: str, *, stays: bool = False) -> None:
        """The containers with a promised room wait again; a gang does not when it `stays`."""
        # A copy: breaking a promise changes the table.
        for uuid in tuple(self._due.get(id, ())):
            shape, place = self._queue.where[uuid]
            if stays and shape.nodes > 1:
                continue
            self._break_promise(uuid, shape, but=id)
            self._queue.break_promise(shape, place)
