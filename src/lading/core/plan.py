"""Which queued container starts where: a function from a snapshot to a plan (dispatch-contract B.4, F.5).

Rules:

- Order: priority, highest first; among equals the one created first; then by uuid. Priorities are exact integers.
- Packing: a container goes to the worker on which it leaves the least room, so that large rooms stay large.
- A worker's capacity is never exceeded and a container that occupies a worker is never started again.
- Backfill: the first container that fits some worker but finds no room is the *head*. One worker is reserved for it.
  On that worker a later container may pass the head only inside (capacity - what the head needs), and everything
  that started there since the head was queued counts against that. What ran before the head was queued ends one day,
  and then the head fits: it never starves, however long the others run.
- A container that can be given more than it needs is given what is left when all that can start is placed.
- What fits no worker stays queued and blocks nobody; its status says what it needs and what there is. A dispatcher
  does not fail what another dispatcher may be able to run (seed 003, Non-responsibilities).

The reserved worker is chosen by figures that starting further containers cannot change to another worker's favour;
hence a plan carried out at once leaves nothing to do: planning again gives an empty plan.

`plan` is called at every event and does little; `explain` words the reasons and is called when they are published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lading.core.sizing import Resources, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A queued container. `created_at` is the API's text; `seen` is when the dispatcher first saw it, in seconds.

    `growth`: how much more than `need` it can be given.
    """

    uuid: str
    priority: int
    created_at: str
    need: Resources
    seen: float = 0.0
    growth: Resources = Resources()


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """A container that occupies a worker: being started, running or ending. `started` is on the clock of `seen`."""

    uuid: str
    need: Resources
    started: float = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Something that runs containers, with all it can hold and all that occupies it."""

    id: str
    capacity: Resources
    occupants: tuple[Occupant, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that planning looks at.

    `held`: queued containers that may not start now, with the reason as a sentence (a pause after a failed start,
    an earlier attempt not yet cleared away). They block nobody.
    """

    queue: tuple[Entry, ...] = ()
    workers: tuple[Worker, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Start:
    """Lock this container, then start it on this worker. A lost lock drops the decision.

    `extra` is what it is given beyond its need.
    """

    uuid: str
    worker: str
    extra: Resources = Resources()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The decisions in the order in which to act, and the head with its reserved worker, if one is blocked."""

    starts: tuple[Start, ...] = ()
    head: str = ""
    reserved: str = ""


class Category(StrEnum):
    """Why a container waits."""

    PREPARING = "preparing"
    HELD = "held"
    NO_WORKER = "no worker"
    TOO_LARGE = "too large"
    CAPACITY = "capacity"
    BEHIND_HEAD = "behind head"


@dataclass(frozen=True, slots=True)
class Status:
    """Why a container waits: the kind of reason, and a sentence for the people who wait."""

    category: Category
    sentence: str


def plan(snapshot: Snapshot) -> Plan:
    """What to start now, in order."""
    rooms = [_Room(worker) for worker in snapshot.workers]
    if not _any_open(rooms):
        return Plan()
    taken = {one.uuid for worker in snapshot.workers for one in worker.occupants} | snapshot.held.keys()
    starts: list[Start] = []
    head = reserved = ""
    for entry in sorted(snapshot.queue, key=order):
        if entry.uuid in taken:
            continue
        taken.add(entry.uuid)
        room = _tightest(rooms, entry.need)
        if room is not None:
            room.take(entry.need)
            starts.append(Start(entry.uuid, room.worker.id))
        elif not head and (room := _reservable(rooms, entry)) is not None:
            room.reserve(entry)
            head, reserved = entry.uuid, room.worker.id
        if not _any_open(rooms):
            break
    return Plan(starts=_grown(starts, rooms, snapshot.queue), head=head, reserved=reserved)


def order(entry: Entry) -> tuple[int, str, str]:
    """The sort key of the queue."""
    return -entry.priority, entry.created_at, entry.uuid


def apply(snapshot: Snapshot, decided: Plan, *, now: float) -> Snapshot:
    """The snapshot as it is once every decision has been carried out at `now`."""
    needs = {entry.uuid: entry.need for entry in snapshot.queue}
    placed: dict[str, list[Occupant]] = {worker.id: list(worker.occupants) for worker in snapshot.workers}
    for start in decided.starts:
        need = needs[start.uuid] + start.extra
        placed[start.worker].append(Occupant(uuid=start.uuid, need=need, started=now))
    started = {start.uuid for start in decided.starts}
    return Snapshot(
        queue=tuple(entry for entry in snapshot.queue if entry.uuid not in started),
        workers=tuple(
            Worker(id=worker.id, capacity=worker.capacity, occupants=tuple(placed[worker.id]))
            for worker in snapshot.workers
        ),
        held=snapshot.held,
    )


def explain(snapshot: Snapshot) -> dict[str, Status]:
    """Why each container of the queue waits, and what is prepared, in the state after `plan` was acted on."""
    decided = plan(snapshot)
    after = apply(snapshot, decided, now=float("inf"))
    found = {
        one.uuid: Status(Category.PREPARING, f"Preparing to run on {worker.id}.")
        for worker in after.workers
        for one in worker.occupants
    }
    position = 0
    for entry in sorted(after.queue, key=order):
        if entry.uuid in found:
            continue
        blocked = _blocked(entry, after.workers)
        if entry.uuid in snapshot.held:
            found[entry.uuid] = Status(Category.HELD, snapshot.held[entry.uuid])
        elif blocked is not None:
            found[entry.uuid] = blocked
        else:
            position += 1
            found[entry.uuid] = _waits(entry, after.workers, position=position, head=decided.head)
    return found


class _Room:
    """What is left of one worker while a plan is made. Lives inside one call of `plan`."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.open = _free(worker)
        self._new = Resources()

    def left(self, need: Resources) -> tuple[int, int, str]:
        rest = self.open - need
        return rest.vcpus, rest.ram, self.worker.id

    def take(self, need: Resources) -> None:
        self.open -= need
        self._new += need

    def reserve(self, head: Entry) -> None:
        inside = self.worker.capacity - head.need - self._since(head)
        self.open = Resources(min(self.open.vcpus, inside.vcpus), min(self.open.ram, inside.ram))

    def reserve_key(self, head: Entry) -> tuple[float, float, str]:
        capacity, before = self.worker.capacity, total(self._occupants_before(head))
        too_much = self._since(head) + head.need - capacity
        return max(0.0, _share(too_much, capacity)), _share(before, capacity), self.worker.id

    def _since(self, head: Entry) -> Resources:
        return self._new + total(one.need for one in self.worker.occupants if one.started >= head.seen)

    def _occupants_before(self, head: Entry) -> Iterable[Resources]:
        return (one.need for one in self.worker.occupants if one.started < head.seen)


def _grown(starts: list[Start], rooms: list[_Room], queue: tuple[Entry, ...]) -> tuple[Start, ...]:
    """The starts with what their workers have left once all of them are placed, for those that can be given more."""
    growth = {entry.uuid: entry.growth for entry in queue if entry.growth != Resources()}
    if not growth:
        return tuple(starts)
    by_worker = {room.worker.id: room for room in rooms}
    grown = []
    for start in starts:
        more, room = growth.get(start.uuid, Resources()), by_worker[start.worker]
        extra = Resources(max(0, min(more.vcpus, room.open.vcpus)), max(0, min(more.ram, room.open.ram)))
        room.take(extra)
        grown.append(Start(start.uuid, start.worker, extra))
    return tuple(grown)


def _any_open(rooms: list[_Room]) -> bool:
    return any(room.open.vcpus > 0 and room.open.ram > 0 for room in rooms)


def _tightest(rooms: list[_Room], need: Resources) -> _Room | None:
    fitting = (room for room in rooms if need.fits(room.open))
    return min(fitting, key=lambda room: room.left(need), default=None)


def _reservable(rooms: list[_Room], head: Entry) -> _Room | None:
    able = (room for room in rooms if head.need.fits(room.worker.capacity))
    return min(able, key=lambda room: room.reserve_key(head), default=None)


def _free(worker: Worker) -> Resources:
    return worker.capacity - total(one.need for one in worker.occupants)


def _share(amount: Resources, capacity: Resources) -> float:
    return max(amount.vcpus / capacity.vcpus, amount.ram / capacity.ram)


def _blocked(entry: Entry, workers: tuple[Worker, ...]) -> Status | None:
    if not workers:
        return Status(Category.NO_WORKER, "Waiting for a worker: none is ready.")
    if any(entry.need.fits(worker.capacity) for worker in workers):
        return None
    largest = max(workers, key=lambda worker: (worker.capacity.vcpus, worker.capacity.ram, worker.id))
    return Status(
        Category.TOO_LARGE,
        f"Too large for this dispatcher: it needs {entry.need}, the largest worker has {largest.capacity}. "
        "It stays queued until a worker can hold it.",
    )


def _waits(entry: Entry, workers: tuple[Worker, ...], *, position: int, head: str) -> Status:
    where = f"Waiting in queue at position {position}"
    free = [_free(worker) for worker in workers]
    if head != entry.uuid and any(entry.need.fits(one) for one in free):
        sentence = f"{where}: there is room, but it would hold up {head}, which needs more and comes first."
        return Status(Category.BEHIND_HEAD, sentence)
    most = max(free, key=lambda one: (one.vcpus, one.ram))
    return Status(Category.CAPACITY, f"{where}: it needs {entry.need}, of which {most} {_are(most)} free.")


def _are(amount: Resources) -> str:
    return "is" if amount.vcpus == 1 else "are"
