"""Decisions of the dispatch loop: which container starts where.

Planning is a function from a snapshot to a plan (docs/spec/dispatch, section Planning). Rules:

- Order: priority, highest first; among equals the one created first; then by uuid. Priorities are
  exact integers.
- Packing: a container goes to the worker on which it leaves the least room: large rooms stay large.
- A worker's capacity is never exceeded; a container that occupies a worker is not started again.
- Backfill: the first container that fits some worker but finds no room is the *head*. Room is
  reserved for it on one worker, and for the containers behind it that find no room either, as long
  as they fit together on a worker. There a later container may pass them only inside (capacity -
  what is reserved), and every later container that started there since they were queued counts
  against that. So the head never starves, and small ones of lower priority do not take the place
  of large ones one by one. They may also start on the room of the first container for which a
  worker keeps room, for as long as it could not use it (`passing`).
- A container that can use more than it needs gets a part of what remains after all starts.
- A container that fits no worker stays queued and blocks no other. A dispatcher does not fail one
  that another dispatcher may be able to run (docs/spec/dispatch, section Parts).
- A quota limits the number of containers at a time, of any size.
- Workflow runners (scheduling parameter `supervisor`) mostly wait for the containers that they
  submit. Were they counted among the others, a few of them could fill a worker, or a quota, and
  wait for ever. So they have room of their own: half of a worker's RAM and half as many as the
  quota, but always room for one.
- A container that names partitions runs only on a worker that is in one of them, one that names
  none on any that is not `closed`; one that needs GPUs of a kind only where they suit it.
- A worker that `queues` stands for a batch system: it takes any container that one of its nodes can
  hold and starts it when there is room, so its containers are not counted against it. `most` limits
  how many are handed over.

The reserved worker is chosen by figures that starting further containers cannot change to another
worker's favour; hence a plan carried out at once leaves nothing to do: planning again gives an
empty plan.

`plan` is called at every event and does little; `batch_explanation` words why others wait.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from dataclasses import replace

from lading.core.resources import Resources, total
from lading.core.scheduling import expected_times, passing
from lading.core.scheduling.planning import (
    DispatchPlan,
    FitKey,
    FleetWorker,
    KeptRoom,
    Occupant,
    Reservation,
    Snapshot,
    StartDecision,
    TrackedContainer,
    by_place,
)

# Of a worker's RAM, and of the quota, for containers that run workflows: the default that
# `SupervisorFraction` has for VMs.
_WORKFLOW_SHARE = 0.5
# Workers that one plan looks at for reservations, so that it is quick in large fleets too.
_MOST_LOOKS = 10_000


def plan(snapshot: Snapshot) -> DispatchPlan:
    """The containers to start now, in order."""
    if snapshot.shortage:
        return DispatchPlan()
    first = _workflow_starts(snapshot) if snapshot.workflow_runners else ()
    rooms = [_WorkerRoom(worker, snapshot) for worker in snapshot.workers]
    slots = _slots(snapshot)
    if not _any_open(rooms) or slots <= 0:
        return DispatchPlan(starts=first)
    starts, reservations = _placed(rooms, _in_turn(snapshot), slots)
    grown = _grown(starts, rooms, snapshot.queue)
    return DispatchPlan(starts=first + grown, reservations=tuple(reservations))


def _placed(
    rooms: list[_WorkerRoom], queue: Iterable[TrackedContainer], slots: int
) -> tuple[list[StartDecision], list[Reservation]]:
    """The starts, `slots` at most, and the reservations, which both take their part of `rooms`."""
    starts: list[StartDecision] = []
    reservations: list[Reservation] = []
    most = max(1, _MOST_LOOKS // len(rooms))
    # Rooms only shrink: where one finds neither room nor a reservation, no later one that wants the
    # same, for as long or longer, does.
    hopeless: dict[FitKey, tuple[float, float]] = {}
    head_rooms = [room for room in rooms if room.has_head]
    for container in queue:
        fit_key = container.fit_key
        if fit_key in hopeless and all(
            map(operator.ge, passing.run_bounds(container), hopeless[fit_key])
        ):
            continue
        if (room := _tightest(rooms, container) or _passable(head_rooms, container)) is not None:
            room.take(container)
            starts.append(StartDecision(container.uuid, room.worker.id))
        elif len(reservations) < most and (room := _reservable(rooms, container)) is not None:
            if not room.has_head:
                head_rooms.append(room)
            room.reserve(container)
            reservations.append(Reservation(container.uuid, room.worker.id))
        else:
            hopeless[fit_key] = passing.run_bounds(container)
        if not _any_open(rooms) or len(starts) == slots:
            break
    return starts, reservations


def _in_turn(snapshot: Snapshot) -> Iterator[TrackedContainer]:
    """The queued containers that nothing runs or holds, each once, in their order."""
    taken = snapshot.present | snapshot.held_back.keys()
    for container in sorted(snapshot.queue, key=by_place):
        if container.uuid not in taken:
            taken.add(container.uuid)
            yield container


def _slots(snapshot: Snapshot) -> int:
    """Number of containers that may be started now."""
    # A quota counts containers of this pass too; without limits every queued container may start.
    limits = [limit for limit in (snapshot.slots, snapshot.most) if limit is not None]
    return min(limits, default=len(snapshot.queue))


def apply(snapshot: Snapshot, decided: DispatchPlan, *, now: float) -> Snapshot:
    """The snapshot after every decision was carried out at `now`."""
    waiting = {
        container.uuid: container for container in (*snapshot.queue, *snapshot.workflow_runners)
    }
    apart = {container.uuid for container in snapshot.workflow_runners}
    placed: dict[str, list[Occupant]] = {worker.id: [] for worker in snapshot.workers}
    for start in decided.starts:
        launched = waiting[start.uuid]
        placed[start.worker].append(
            Occupant(
                uuid=launched.uuid,
                need=launched.need + start.extra,
                started=now,
                ends=expected_times.expected_end(launched, began=snapshot.now, now=snapshot.now),
                queue_place=launched.place,
                gpu=launched.gpu,
            )
        )
    started = {start.uuid for start in decided.starts}

    def with_placed(worker: FleetWorker) -> FleetWorker:
        workflow_runners = tuple(
            occupant for occupant in placed[worker.id] if occupant.uuid in apart
        )
        others = tuple(occupant for occupant in placed[worker.id] if occupant.uuid not in apart)
        return replace(
            worker,
            occupants=worker.occupants + others,
            workflow_runners=worker.workflow_runners + workflow_runners,
        )

    return replace(
        snapshot,
        queue=tuple(container for container in snapshot.queue if container.uuid not in started),
        workflow_runners=tuple(
            container for container in snapshot.workflow_runners if container.uuid not in started
        ),
        workers=tuple(with_placed(worker) for worker in snapshot.workers),
        kept_rooms=keep(snapshot, decided),
        most=None if snapshot.most is None else snapshot.most - len(decided.starts),
    )


def keep(snapshot: Snapshot, decided: DispatchPlan) -> dict[str, KeptRoom]:
    """The rooms that are kept for waiting containers after a plan. One for which room was kept once
    counts from then on, also while no worker has any room.
    """
    started = {start.uuid for start in decided.starts}
    waiting = {container.uuid for container in snapshot.queue} - started
    found = {uuid: room for uuid, room in snapshot.kept_rooms.items() if uuid in waiting}
    for reservation in decided.reservations:
        since = found[reservation.uuid].since if reservation.uuid in found else snapshot.now
        found[reservation.uuid] = KeptRoom(reservation.worker, since)
    return found


class _WorkerRoom:
    """The free part of one worker while a plan is made. Lives inside one call of `plan`.

    `open` is free for all, `_free` free as such: a part of it may be kept for containers that have
    none yet, of which `_head` is the first.
    """

    def __init__(self, worker: FleetWorker, snapshot: Snapshot) -> None:
        self.worker = worker
        self.open = self._free = worker.free
        self._snapshot = snapshot
        self._unreserved = worker.capacity
        self._occupants = list(worker.occupants)
        self._head: passing.Head | None = None
        self._reserved: list[TrackedContainer] = []
        self._outlook: passing.Outlook | None = None
        if any(occupant.asks for occupant in worker.occupants):
            self._take_out_blocked()

    def _take_out_blocked(self) -> None:
        """Do not count the occupants that ask for room which they cannot have yet: the first of
        them is the head.
        """
        asking = {
            occupant.uuid: occupant.queue_place or (0, "", occupant.uuid)
            for occupant in self._occupants
            if occupant.asks
        }
        limit, now = self._snapshot.passing, self._snapshot.now
        let_in = passing.admitted(self.worker, asking, now=now, limit=limit)
        blocked = [
            occupant
            for occupant in self._occupants
            if occupant.asks and occupant.uuid not in let_in
        ]
        self._occupants = [occupant for occupant in self._occupants if occupant not in blocked]
        self._free = self.worker.capacity - total(occupant.need for occupant in self._occupants)
        if blocked:
            self._head = passing.Head.asking(
                min(blocked, key=lambda occupant: asking[occupant.uuid])
            )

    @property
    def has_head(self) -> bool:
        """Whether a part of it is kept for some container."""
        return self._head is not None

    @property
    def is_open(self) -> bool:
        """Whether some container may find room. Each needs a VCPU and some RAM."""
        free = self.open if self._head is None else self._free
        return free.vcpus > 0 and free.ram > 0

    def holds(self, container: TrackedContainer) -> bool:
        return (
            container.need.fits(self.open)
            and self.worker.admits(container)
            and self.worker.has_gpus(container, (*self._occupants, *self._reserved))
        )

    def lets_pass(self, container: TrackedContainer) -> bool:
        """Whether a container may use room that is kept for the head."""
        if self._head is None or not container.need.fits(self._free):
            return False
        if self._outlook is None:
            capacity, occupants = self.worker.capacity, self._occupants
            self._outlook = passing.outlook(self._head, capacity=capacity, occupants=occupants)
        return (
            self.worker.admits(container)
            and self.worker.has_gpus(container, self._occupants)
            and passing.may_pass(
                passing.run_bounds(container),
                self._outlook,
                now=self._snapshot.now,
                until=self._head.since + self._snapshot.passing,
            )
        )

    def left(self, need: Resources) -> tuple[int, int, int, int, str]:
        rest = self.open - need
        return rest.gpus, rest.vcpus, rest.ram, rest.disk, self.worker.id

    def take(self, container: TrackedContainer) -> None:
        # A batch system queues by itself: its containers take no room here.
        if self.worker.queues:
            return
        now = self._snapshot.now
        ends = expected_times.expected_end(container, began=now, now=now)
        # At infinity it has passed each head that comes before it in the queue.
        self._occupants.append(
            Occupant(
                uuid=container.uuid,
                need=container.need,
                started=math.inf,
                ends=ends,
                queue_place=container.place,
                gpu=container.gpu,
            )
        )
        self.take_more(container.need)

    def take_more(self, need: Resources) -> None:
        if not self.worker.queues:
            self.open -= need
            self._free -= need
            self._outlook = None

    def reservable(self, container: TrackedContainer) -> bool:
        # What does not fit beside the others would keep a part of the worker empty. Its turn comes
        # when it is the head.
        return container.need.fits(self._unreserved) and self.worker.admits(container)

    def reserve(self, container: TrackedContainer) -> None:
        if self._head is None:
            kept = self._snapshot.kept_rooms.get(container.uuid)
            since = kept.since if kept else self._snapshot.now
            self._head = passing.Head.waiting(container, since=since)
        need = container.need
        if len(self.worker.gpu_kinds or ()) > 1:
            # `_reserved` tells which kinds are kept: the number would keep GPUs of other kinds too.
            need = Resources(need.vcpus, need.ram, need.disk)
        self._unreserved -= need
        self._reserved.append(container)
        # Later containers that started since this one was queued have passed it, and are counted
        # against the room beside what is reserved.
        self.open = self.open.least(self._unreserved - self._passed(container))

    def reserve_key(self, container: TrackedContainer) -> tuple[float, float, str]:
        capacity, before = self.worker.capacity, total(self._occupants_before(container))
        # First the share by which containers that passed this one exceed the room beside what is
        # reserved, then the share of earlier occupants, which all end one day. The id makes the
        # choice stable.
        too_much = self._passed(container) + container.need - self._unreserved
        kept = self._snapshot.kept_rooms.get(container.uuid)
        if kept is not None and kept.worker == self.worker.id:
            # Those that were let pass here must not move it to another worker, where others would
            # be let pass then.
            return 0.0, before.share_of(capacity), self.worker.id
        return max(0.0, too_much.share_of(capacity)), before.share_of(capacity), self.worker.id

    def _passed(self, container: TrackedContainer) -> Resources:
        # Containers that this plan has placed so far go before it.
        return total(
            occupant.need for occupant in self.worker.occupants if occupant.passed(container)
        )

    def _occupants_before(self, container: TrackedContainer) -> Iterable[Resources]:
        return (
            occupant.need
            for occupant in self.worker.occupants
            if occupant.started < container.seen_at
        )


def _workflow_starts(snapshot: Snapshot) -> tuple[StartDecision, ...]:
    """The workflow runners to start now, each on the worker where others have taken the least
    RAM.
    """
    taken = snapshot.present | snapshot.held_back.keys()
    used = {
        worker.id: total(occupant.need for occupant in worker.workflow_runners).ram
        for worker in snapshot.workers
    }
    running = sum(len(worker.workflow_runners) for worker in snapshot.workers)
    most = (
        # At least one workflow runs, even beyond the quota: otherwise none could ever end.
        max(1, int(snapshot.quota * _WORKFLOW_SHARE))
        if snapshot.quota
        else running + len(snapshot.workflow_runners)
    )
    starts: list[StartDecision] = []
    for container in sorted(snapshot.workflow_runners, key=by_place):
        if container.uuid in taken or running + len(starts) >= most:
            continue
        able = [
            worker
            for worker in snapshot.workers
            if _has_room(worker, container, used=used[worker.id])
        ]
        if able:
            worker = min(
                able, key=lambda worker: (used[worker.id] / worker.capacity.ram, worker.id)
            )
            used[worker.id] += container.need.ram
            starts.append(StartDecision(container.uuid, worker.id))
    return tuple(starts)


def _has_room(worker: FleetWorker, container: TrackedContainer, *, used: int) -> bool:
    # The first runner on a worker may take all of its RAM, so that a large one runs at all.
    limit = int(worker.capacity.ram * _WORKFLOW_SHARE) if used else worker.capacity.ram
    return worker.admits(container) and used + container.need.ram <= limit


def _grown(
    starts: list[StartDecision], rooms: list[_WorkerRoom], queue: tuple[TrackedContainer, ...]
) -> tuple[StartDecision, ...]:
    """The starts, with the room left on their workers for containers that can be given more."""
    chosen = {start.uuid for start in starts}
    growth = {
        container.uuid: container.growth
        for container in queue
        if container.uuid in chosen and container.growth != Resources()
    }
    if not growth:
        return tuple(starts)
    by_worker = {room.worker.id: room for room in rooms}
    grown = []
    for start in starts:
        more, room = growth.get(start.uuid, Resources()), by_worker[start.worker]
        extra = Resources() if room.worker.queues else _positive(more.least(room.open))
        room.take_more(extra)
        grown.append(StartDecision(start.uuid, start.worker, extra))
    return tuple(grown)


def _positive(amount: Resources) -> Resources:
    return Resources(max(0, amount.vcpus), max(0, amount.ram))


def _any_open(rooms: list[_WorkerRoom]) -> bool:
    return any(room.is_open for room in rooms)


def _tightest(rooms: list[_WorkerRoom], container: TrackedContainer) -> _WorkerRoom | None:
    fitting = (room for room in rooms if room.holds(container))
    return min(fitting, key=lambda room: room.left(container.need), default=None)


def _passable(rooms: list[_WorkerRoom], container: TrackedContainer) -> _WorkerRoom | None:
    able = (room for room in rooms if room.lets_pass(container))
    return min(able, key=lambda room: room.left(container.need), default=None)


def _reservable(rooms: list[_WorkerRoom], container: TrackedContainer) -> _WorkerRoom | None:
    able = (room for room in rooms if room.reservable(container))
    return min(able, key=lambda room: room.reserve_key(container), default=None)
