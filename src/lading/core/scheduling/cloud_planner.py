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

from lading.core.resources import Resources
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
from lading.core.scheduling.room_table import RoomTable

# A pass is repeated while it frees rooms that were kept. Each can free those of one gang, so that
# two or three do; the limit only bounds the time of a step; the next step continues.
_MOST_PASSES = 8


class Planner:
    """Plans for one cloud. `prefix` begins the names of the rooms that it asks for."""

    def __init__(self, rules: CloudRules, *, prefix: str = "vm-") -> None:
        self.rules = rules
        self._types = {kind.name: kind for kind in rules.types}
        self._prefix = prefix
        self._last = 0
        self._queue = CloudQueue()
        self._table = RoomTable()
        self._followed: Mapping[str, TrackedContainer] = {}
        self._eligible: dict[ContainerShape, tuple[InstanceType, ...]] = {}
        self._blocked: dict[ContainerShape, tuple[BlockReason, str]] = {}
        self._workflows = 0

    # The present state, as far as it is known.

    @property
    def waiting(self) -> Mapping[str, tuple[ContainerShape, Place]]:
        """The waiting containers, including those with a promise."""
        return self._queue.where

    @property
    def rooms(self) -> Mapping[str, InstanceRoom]:
        """The rooms, with the amounts that are free once the promises are kept."""
        return self._table.rooms

    @property
    def promised(self) -> int:
        """Number of containers that were promised a room."""
        return len(self._table.promised)

    def promise(self, uuid: str) -> str:
        """The room that a container was promised, of several the first that is not ready; "" for
        none.
        """
        rooms = self._table.promised_rooms(uuid) or ("",)
        return next((id for id in rooms if id and not self.rooms[id].ready), rooms[0])

    def promised_rooms(self, uuid: str) -> tuple[str, ...]:
        """The rooms that were promised to the ranks of a gang."""
        return self._table.promised_rooms(uuid)

    def blocked(self, shape: ContainerShape) -> tuple[BlockReason, str] | None:
        """Reason that no container of a shape could be placed in the last pass; None if all
        were.
        """
        return self._blocked.get(shape)

    @property
    def guarded(self) -> tuple[str, str] | None:
        """The container that a room is kept for, and the room, of several the first by name."""
        table = self._table
        return (table.kept_for, min(table.kept_ids, default="")) if table.kept_for else None

    def count_workflows(self, running: int) -> None:
        """Set the number of running containers that run workflows."""
        self._workflows = running + self._queue.count_promised_workflows()

    def follow(self, waiting: Iterable[TrackedContainer]) -> None:
        """Set the waiting containers; takes time by the number of changes."""
        followed = {container.uuid: container for container in waiting}
        for uuid in [uuid for uuid in self._queue.where if uuid not in followed]:
            self.remove(uuid)
        for uuid, container in followed.items():
            before = self._followed.get(uuid)
            if uuid not in self._queue.where or (before is not container and before != container):
                self.add(container, self.shape_of(container))
        self._followed = followed

    def shape_of(self, container: TrackedContainer) -> ContainerShape:
        """Shape by which a container is planned: a gang whole where a type can hold it, else by its
        ranks.
        """
        extra_ram = self.rules.extra_ram
        shape = ContainerShape(
            need=on_machine(container.need, extra_ram=extra_ram),
            preemptible=container.preemptible,
            gpu=container.gpu,
            runs_workflow=container.runs_workflow,
        )
        if container.nodes == 1 or self.eligible(shape):
            return shape
        each = on_machine(container.each, extra_ram=extra_ram)
        return structs.replace(shape, need=each, nodes=container.nodes)

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
            promised = uuid in self._table.promised
            if promised:
                self._break_promise(uuid)
            self._queue.remove(uuid, promised=promised)
            self._table.stop_keeping(uuid)

    def put(self, room: InstanceRoom) -> None:
        """Add or change a room. `free` does not count promises."""
        if room.ready or not room.open:
            self._release(room.id, stays=room.open)
        self._table.put(room)

    def drop(self, id: str) -> None:
        """Remove a room."""
        self._release(id)
        self._table.drop(id)

    def has_room(self, shape: ContainerShape) -> bool:
        """Whether a ready room holds a container of this shape."""
        return self._table.tightest_ready(self.eligible(shape), shape.need) is not None

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
        planning_pass = PlanningPass(
            limits, now, share if self.rules.workflow_fraction > 0 else ANY, left
        )
        self._run(planning_pass)
        passes = 1
        while planning_pass.freed and passes < _MOST_PASSES:
            self._run(planning_pass)
            passes += 1
        return CloudPlan(
            starts=tuple(planning_pass.starts),
            creates=tuple(planning_pass.creates),
            kept_rooms=tuple(self._kept()),
            retire=tuple(self._useless()) if self._lets_go(limits) else (),
            unneeded=tuple(
                id for id, room in self.rooms.items() if not room.ready and not self._table.due(id)
            ),
        )

    def _run(self, planning_pass: PlanningPass) -> None:
        kept_before = self._table.kept_for, self._table.kept_ids
        planning_pass.guarded, planning_pass.places, planning_pass.freed = False, 0, False
        self._blocked.clear()
        heap = self._queue.heads()
        heapify(heap)
        while heap:
            place, number, shape, promised = heap[0]
            places = (self._queue.promised if promised else self._queue.waiting)[shape]
            settled = self._settle(planning_pass, shape, place, promised=promised)
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
        if not planning_pass.guarded:
            self._table.stop_keeping()
        # A container that was passed over may want the room that is not kept any more.
        is_same = kept_before == (self._table.kept_for, self._table.kept_ids)
        planning_pass.freed = planning_pass.freed or (bool(kept_before[0]) and not is_same)

    def _settle(
        self, planning_pass: PlanningPass, shape: ContainerShape, position: Place, *, promised: bool
    ) -> bool:
        """Place the first of a shape; False when none of it can be placed. The caller removes it
        from the queue.
        """
        if promised:
            return self._start(planning_pass, shape, position)
        if (refusal := self._refusal(planning_pass, shape)) is not None:
            self._blocked[shape] = refusal
            return False
        placed = (
            self._start(planning_pass, shape, position)
            or self._await(shape, position)
            or self._create(planning_pass, shape, position)
        )
        if planning_pass.left is not None:
            planning_pass.left -= placed
        return placed

    def _refusal(
        self, planning_pass: PlanningPass, shape: ContainerShape
    ) -> tuple[BlockReason, str] | None:
        """Reason why no container of a shape can be placed now in any room, or None."""
        if not self.eligible(shape):
            return (BlockReason.NO_TYPE, "")
        kinds = self.eligible(shape) if shape.nodes > 1 else ()
        fewest = min(
            (machines(shape, kind, most_containers=self._places()) for kind in kinds), default=1
        )
        if planning_pass.limits.most and fewest > planning_pass.limits.most:
            return (BlockReason.TOO_MANY, f"{fewest}")
        if shape.runs_workflow and self._workflows >= planning_pass.most_workflows:
            return (BlockReason.WORKFLOWS, f"{planning_pass.most_workflows}")
        if planning_pass.left is not None and planning_pass.left <= 0:
            return (BlockReason.BUSY, "")
        return None

    def _start(self, planning_pass: PlanningPass, shape: ContainerShape, position: Place) -> bool:
        uuid = position[2]
        if shape.nodes > 1:
            return self._start_gang(planning_pass, shape, uuid)
        room = self._kept_for(uuid, shape.need) or self._table.tightest_ready(
            self.eligible(shape), shape.need, image=self._queue.images.get(uuid, "")
        )
        if room is None:
            return False
        # It starts elsewhere than promised: another pass gives others the room that it leaves.
        self._start_in(planning_pass, shape, uuid, (room.id,), leaves=uuid in self._table.promised)
        return True

    def _start_in(
        self,
        planning_pass: PlanningPass,
        shape: ContainerShape,
        uuid: str,
        rooms: tuple[str, ...],
        *,
        leaves: bool,
    ) -> None:
        """Start a container in rooms, one for each rank. `leaves`: rooms that it was promised
        become free.
        """
        self._table.stop_keeping(uuid)
        # A start in a room that is kept can make another one nearer to free.
        planning_pass.freed = (
            planning_pass.freed or leaves or not self._table.kept_ids.isdisjoint(rooms)
        )
        if uuid in self._table.promised:
            self._break_promise(uuid)
        self._queue.start(uuid)
        self._workflows += shape.runs_workflow
        # Counted at once, so that the next container of this pass is not given the same room.
        self._table.start(rooms, shape)
        planning_pass.starts.append(StartDecision(uuid, rooms[0], others=rooms[1:]))

    def _await(self, shape: ContainerShape, position: Place) -> bool:
        """Promise a room that is not ready; a gang is also promised ready ones."""
        if shape.nodes > 1:
            rooms = self._rooms_for_gang(shape, position[2])
            return len(rooms) == shape.nodes and self._promise(shape, position, rooms)
        id = self._table.tightest_coming(self.eligible(shape), shape.need)
        return id is not None and self._promise(shape, position, (id,))

    def _promise(self, shape: ContainerShape, position: Place, rooms: tuple[str, ...]) -> bool:
        self._table.stop_keeping(position[2])
        self._table.promise(position[2], shape, rooms)
        self._workflows += shape.runs_workflow
        self._queue.promise(shape, position)
        return True

    def _create(self, planning_pass: PlanningPass, shape: ContainerShape, position: Place) -> bool:
        """Ask for a VM and promise it."""
        if shape.nodes > 1:
            return self._create_for_gang(planning_pass, shape, position)
        why = planning_pass.limits.over_quota(
            len(self.rooms) + planning_pass.places, now=planning_pass.now
        )
        if why:
            self._blocked[shape] = (BlockReason.QUOTA, why)
            if not planning_pass.guarded:
                self._keep_room(position[2], shape)
                planning_pass.guarded = True
            return False
        why = planning_pass.limits.slowed(now=planning_pass.now)
        if why:
            self._blocked[shape] = (BlockReason.RATE, why)
            return False
        for kind in planning_pass.limits.ordered(self.eligible(shape), now=planning_pass.now):
            why = planning_pass.limits.lacks(self.rules.group(kind), now=planning_pass.now)
            if not why:
                return self._promise(shape, position, (self._ask_for(planning_pass, kind),))
        self._blocked[shape] = (BlockReason.CAPACITY, why)
        return False

    def _ask_for(self, planning_pass: PlanningPass, kind: InstanceType) -> str:
        self._last += 1
        room = InstanceRoom(
            f"{self._prefix}{self._last}", kind.name, kind.resources, places=self._places()
        )
        self._table.put(room)
        planning_pass.creates.append((room.id, kind.name))
        return room.id

    def _places(self) -> int:
        return self.rules.most_containers or ANY

    # Gangs over several rooms.

    def _rooms_for_gang(
        self, shape: ContainerShape, uuid: str, *, ready: bool = False
    ) -> tuple[str, ...]:
        """Choose a room for as many ranks as possible; rooms promised to the gang count as free."""
        mine = Counter(self._table.promised_rooms(uuid))
        rooms = (
            replace(
                room,
                free=room.free + shape.need.times(mine[room.id]),
                places=room.places + mine[room.id],
            )
            if room.id in mine
            else room
            for room in self.rooms.values()
            if room.open
            and (room.ready or not ready)
            and (room.id in mine or not self._is_kept_from(uuid, room.id))
        )
        ranking = {kind.name: rank for rank, kind in enumerate(self.eligible(shape))}
        return lay_out(shape, rooms, ranking, image=self._queue.images.get(uuid, ""))

    def _is_kept_from(self, uuid: str, id: str) -> bool:
        return id in self._table.kept_ids and self._is_behind_kept(uuid)

    def _is_behind_kept(self, uuid: str) -> bool:
        """Whether a container stands behind the one that rooms are kept for."""
        return self._queue.where[uuid][1] > self._queue.where[self._table.kept_for][1]

    def _start_gang(self, planning_pass: PlanningPass, shape: ContainerShape, uuid: str) -> bool:
        rooms = self._rooms_for_gang(shape, uuid, ready=True)
        if len(rooms) < shape.nodes:
            return False
        promised = self._table.promised_rooms(uuid)
        self._start_in(planning_pass, shape, uuid, rooms, leaves=promised not in ((), rooms))
        return True

    def _create_for_gang(
        self, planning_pass: PlanningPass, shape: ContainerShape, position: Place
    ) -> bool:
        """Ask for the VMs that are lacking, all or none of them."""
        rooms = self._rooms_for_gang(shape, position[2])
        present, lacking, scarce = (
            len(self.rooms) + planning_pass.places,
            list[tuple[InstanceType, str]](),
            "",
        )
        for kind in planning_pass.limits.ordered(self.eligible(shape), now=planning_pass.now):
            lacks = planning_pass.limits.lacks(self.rules.group(kind), now=planning_pass.now)
            if lacks:
                scarce = lacks
                continue
            remaining = structs.replace(shape, nodes=shape.nodes - len(rooms))
            more = machines(remaining, kind, most_containers=self._places())
            too_many = planning_pass.limits.too_many(present, more, now=planning_pass.now)
            if too_many:
                lacking.append((kind, too_many))
                continue
            slowed = planning_pass.limits.slowed(now=planning_pass.now)
            if slowed:
                self._blocked[shape] = (BlockReason.RATE, slowed)
                return False
            for _ in range(more):
                self._ask_for(planning_pass, kind)
            return self._promise(shape, position, self._rooms_for_gang(shape, position[2]))
        # Rooms are kept for the quota alone: a VM that leaves makes place for one of the gang,
        # which helps nobody where the cloud has none to give.
        if lacking and not planning_pass.guarded:
            planning_pass.guarded = self._keep_rooms(
                planning_pass, position[2], shape, lacking[0][0]
            )
        self._blocked[shape] = (
            (BlockReason.QUOTA, lacking[0][1]) if lacking else (BlockReason.CAPACITY, scarce)
        )
        return False

    def _keep_rooms(
        self, planning_pass: PlanningPass, uuid: str, shape: ContainerShape, kind: InstanceType
    ) -> bool:
        """Keep the rooms that a gang needs; False if even all of them are not enough."""
        free = planning_pass.limits.left(len(self.rooms), shape.nodes, now=planning_pass.now)
        types = {able.name: able for able in self.eligible(shape)}
        each = min(kind.resources.holds(shape.need), self._places())
        kept = keep(shape, self.rooms.values(), types, most=self._places(), each=each, free=free)
        if kept is None:
            return False
        self._table.keep(uuid, kept.rooms)
        planning_pass.places = kept.places
        return True

    def _kept(self) -> Iterator[tuple[str, str]]:
        """The rooms that have to stay, each with the gang for which it does."""
        for places in (places for shape, places in self._queue.promised.items() if shape.nodes > 1):
            for _, _, uuid in places:
                yield from (
                    (id, uuid)
                    for id in dict.fromkeys(self._table.promised_rooms(uuid))
                    if self.rooms[id].ready
                )
        yield from (
            (room.id, self._table.kept_for)
            for room in self._table.kept_rooms()
            if self._is_kept_for_gang(room)
        )

    def _is_kept_for_gang(self, room: InstanceRoom) -> bool:
        """Whether a gang that waits for the quota needs this room itself, and not only its
        place.
        """
        if room.id not in self._table.kept_ids:
            return False
        shape, _ = self._queue.where[self._table.kept_for]
        return shape.nodes > 1 and any(kind.name == room.type for kind in self.eligible(shape))

    # Keeping a room for the head.

    def _kept_for(self, uuid: str, need: Resources) -> InstanceRoom | None:
        if not self._table.kept_ids or self._is_behind_kept(uuid):
            return None
        names = {kind.name for kind in self.eligible(self._queue.where[uuid][0])}
        rooms = (room for room in self._table.kept_rooms() if room.ready and room.type in names)
        return next((room for room in rooms if need.fits(room.free) and room.places > 0), None)

    def _keep_room(self, uuid: str, shape: ContainerShape) -> None:
        if self._table.kept_for == uuid:
            return
        self._table.stop_keeping()
        names = {kind.name for kind in self.eligible(shape)}
        best = nearest_to_free(shape, self.rooms.values(), names, self._types)
        if best is not None:
            self._table.keep(uuid, frozenset((best.id,)))

    def _lets_go(self, limits: Limits) -> bool:
        waits = any(
            block in (BlockReason.QUOTA, BlockReason.RATE) for block, _ in self._blocked.values()
        )
        return waits or (limits.rate_ban is not None and bool(self._table.promised))

    def _useless(self) -> Iterator[str]:
        return (
            id
            for id, room in self.rooms.items()
            if room.ready
            and room.empty
            and room.open
            and not self._table.due(id)
            and not self._is_kept_for_gang(room)
        )

    # Promises.

    def _break_promise(self, uuid: str, *, but: str = "") -> None:
        """Release the promised rooms, except the room `but`, which is about to change; places are
        left to the caller.
        """
        shape = self._table.break_promise(uuid, but=but)
        self._workflows -= shape.runs_workflow

    def _release(self, id: str, *, stays: bool = False) -> None:
        """The containers with a promised room wait again; a gang does not when it `stays`."""
        for uuid in self._table.due(id):
            shape, place = self._queue.where[uuid]
            if stays and shape.nodes > 1:
                continue
            self._break_promise(uuid, but=id)
            self._queue.break_promise(shape, place)
