"""Which queued container starts where: a function from a snapshot to a plan.

Source: docs/spec/dispatch, section Planning.

Rules:

- Order: priority, highest first; among equals the one created first; then by uuid. Priorities are
  exact integers.
- Packing: a container goes to the worker on which it leaves the least room, so that large rooms
  stay large.
- A worker's capacity is never exceeded and a container that occupies a worker is never started
  again.
- Backfill: the first container that fits some worker but finds no room is the *head*. One worker is
  reserved for it. On that worker a later container may pass the head only inside (capacity - what
  the head needs), and everything that started there since the head was queued counts against that.
  What ran before the head was queued ends one day, and then the head fits: it never starves,
  however long the others run.
- A container that can be given more than it needs is given what is left when all that can start is
  placed.
- What fits no worker stays queued and blocks nobody; its status says what it needs and the nearest
  fit. A dispatcher does not fail what another dispatcher may be able to run (docs/spec/dispatch,
  section Parts).
- A quota, if there is one, is how many containers there are at a time, whatever their size.
- *Supervisors* (scheduling parameter `supervisor`: containers that run a workflow) mostly wait for
  the containers that they ask for. Were they counted among the others, a few of them could fill a
  worker, or a quota, and wait for ever. So they have room of their own: half of a worker's RAM and
  half as many as the quota, but always room for one.
- A container that names partitions runs only on a worker that is in one of them, one that names
  none on any worker that is not `closed`.
- A container that needs GPUs of one kind runs only on a worker whose GPUs suit it, as far as that
  is known.
- A worker that `queues` stands for a batch system: it takes whatever one of its nodes can hold and
  finds the moment itself, so its containers are not counted against it. `most` limits how many are
  handed over.

The reserved worker is chosen by figures that starting further containers cannot change to another
worker's favour; hence a plan carried out at once leaves nothing to do: planning again gives an
empty plan.

`plan` is called at every event and does little; `explain` words the reasons and is called when they
are published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from lading.core.resources import Resources, total
from lading.core.scheduling.gpus import unsuited
from lading.core.scheduling.instance_types import NO_GPU, Gpu

# Share of the places and of a worker's memory for containers that make requests: the rest is for
# the containers that they wait for.
_SUPERVISOR_SHARE = 0.5
_SUPERVISORS_WAIT = (
    "Waiting for another workflow to end: "
    "those in progress have all the room that is set aside for workflows."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A queued container. `created_at` is the API's text; `seen` is when the dispatcher first saw
    it, in seconds.

    `growth`: how much more than `need` it can be given. `partitions`: where it may run, if that
    matters. `gpu`: what GPUs it asks for.
    `preemptible`: on VMs that the cloud may take back. `image`: what it runs in, where that
    matters. `nodes`: how many containers it is, a gang, which `need` is of all together.
    """

    uuid: str
    priority: int
    created_at: str
    need: Resources
    seen: float = 0.0
    growth: Resources = Resources()
    partitions: frozenset[str] = frozenset()
    preemptible: bool = False
    gpu: Gpu = NO_GPU
    image: str = ""
    nodes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """A container that occupies a worker: being started, running or ending. `started` is on the
    clock of `seen`.
    """

    uuid: str
    need: Resources
    started: float = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Something that runs containers, with all it can hold and all that occupies it: supervisors,
    and the others.

    `queues`: it is a batch system, and `capacity` is what a node of one kind can hold. `closed`: it
    runs only what names one of its partitions. `gpu`: the kind of its GPUs, None where nobody
    knows.
    """

    id: str
    capacity: Resources
    occupants: tuple[Occupant, ...] = ()
    supervisors: tuple[Occupant, ...] = ()
    partitions: frozenset[str] = frozenset()
    queues: bool = False
    closed: bool = False
    gpu: Gpu | None = None

    def admits(self, entry: Entry) -> bool:
        """Whether a container may run here and fits when nothing else does."""
        placed = (
            not entry.partitions.isdisjoint(self.partitions)
            if entry.partitions
            else not self.closed
        )
        return placed and entry.need.fits(self.capacity) and not self.unsuited(entry)

    def unsuited(self, entry: Entry) -> str:
        """Why its GPUs are none for this container; "" when they are, as far as is known."""
        return unsuited(entry.gpu, self.gpu) if self.gpu is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that planning looks at: queued containers, those that are supervisors apart, and workers.

    `held`: queued containers that may not start now, with the reason as a sentence (a pause after a
    failed start, an earlier attempt not yet cleared away). They block nobody. `quota` is the most
    containers at a time, 0 as many as fit; `most` how many may be started now, None any number;
    `shortage` why none may be started now on any worker, as a sentence, "" when some may.
    `busy_at`: when the API last said that it is busy, seconds since 1970, 0.0 for never;
    `overloaded_at`: when it last said so to many requests.
    """

    queue: tuple[Entry, ...] = ()
    supervisors: tuple[Entry, ...] = ()
    workers: tuple[Worker, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)
    quota: int = 0
    most: int | None = None
    shortage: str = ""
    busy_at: float = 0.0
    overloaded_at: float = 0.0

    @property
    def running(self) -> int:
        """How many containers occupy the workers, without supervisors."""
        return len({one.uuid for worker in self.workers for one in worker.occupants})

    @property
    def present(self) -> set[str]:
        """The containers that occupy the workers."""
        return {
            one.uuid for worker in self.workers for one in (*worker.occupants, *worker.supervisors)
        }

    @property
    def slots(self) -> int | None:
        """How many more the quota lets in; None is any number."""
        return max(0, self.quota - self.running) if self.quota else None


@dataclass(frozen=True, slots=True)
class Start:
    """Lock this container, then start it on this worker. A lost lock drops the decision.

    `extra` is what it is given beyond its need. `others`: of a gang over several workers those of
    its further ranks.
    """

    uuid: str
    worker: str
    extra: Resources = Resources()
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The decisions in the order in which to act, and the head with its reserved worker, if one is
    blocked.
    """

    starts: tuple[Start, ...] = ()
    head: str = ""
    reserved: str = ""


class Category(StrEnum):
    """Why a container waits."""

    PREPARING = "preparing"
    HELD = "held"
    NO_WORKER = "no worker"
    TOO_LARGE = "too large"
    PARTITION = "partition"
    HANDED_OVER = "handed over"
    CAPACITY = "capacity"
    QUOTA = "quota"
    BEHIND_HEAD = "behind head"
    UNSIZED = "unsized"
    BOOTING = "booting"


@dataclass(frozen=True, slots=True)
class Status:
    """Why a container waits: the kind of reason, and a sentence for the people who wait.

    `cause` says the same afterwards, in words that follow "waited 41 s "
    (`core.scheduling.wait_history`); "": the sentence says it.
    """

    category: Category
    sentence: str
    cause: str = ""


def plan(snapshot: Snapshot) -> Plan:
    """What to start now, in order."""
    if snapshot.shortage:
        return Plan()
    first = _supervisor_starts(snapshot) if snapshot.supervisors else ()
    rooms = [_Room(worker) for worker in snapshot.workers]
    limits = [limit for limit in (snapshot.slots, snapshot.most) if limit is not None]
    slots = min(limits, default=len(snapshot.queue))
    if not _any_open(rooms) or slots <= 0:
        return Plan(starts=first)
    taken = snapshot.present | snapshot.held.keys()
    starts: list[Start] = []
    head = reserved = ""
    for entry in sorted(snapshot.queue, key=order):
        if entry.uuid in taken:
            continue
        taken.add(entry.uuid)
        room = _tightest(rooms, entry)
        if room is not None:
            room.take(entry.need)
            starts.append(Start(entry.uuid, room.worker.id))
        elif not head and (room := _reservable(rooms, entry)) is not None:
            room.reserve(entry)
            head, reserved = entry.uuid, room.worker.id
        if not _any_open(rooms) or len(starts) == slots:
            break
    return Plan(starts=first + _grown(starts, rooms, snapshot.queue), head=head, reserved=reserved)


def admitted(worker: Worker, asking: Mapping[str, tuple[int, str, str]]) -> tuple[str, ...]:
    """Those of a worker's occupants that ask for what they need, by their place in the queue, and
    may have it now.

    They go in the order of the queue, so that a large one is not kept waiting by small ones.
    """
    room = worker.capacity - total(one.need for one in worker.occupants if one.uuid not in asking)
    waiting = {one.uuid: one.need for one in worker.occupants if one.uuid in asking}
    found = [one.uuid for one in worker.supervisors if one.uuid in asking]
    for uuid in sorted(waiting, key=lambda one: asking[one]):
        if not waiting[uuid].fits(room):
            break
        room -= waiting[uuid]
        found.append(uuid)
    return tuple(found)


def order(entry: Entry) -> tuple[int, str, str]:
    """The sort key of the queue."""
    return -entry.priority, entry.created_at, entry.uuid


def apply(snapshot: Snapshot, decided: Plan, *, now: float) -> Snapshot:
    """The snapshot as it is once every decision has been carried out at `now`."""
    needs = {entry.uuid: entry.need for entry in (*snapshot.queue, *snapshot.supervisors)}
    apart = {entry.uuid for entry in snapshot.supervisors}
    placed: dict[str, list[Occupant]] = {worker.id: [] for worker in snapshot.workers}
    for start in decided.starts:
        need = needs[start.uuid] + start.extra
        placed[start.worker].append(Occupant(uuid=start.uuid, need=need, started=now))
    started = {start.uuid for start in decided.starts}

    def with_placed(worker: Worker) -> Worker:
        supervisors = tuple(one for one in placed[worker.id] if one.uuid in apart)
        others = tuple(one for one in placed[worker.id] if one.uuid not in apart)
        return replace(
            worker,
            occupants=worker.occupants + others,
            supervisors=worker.supervisors + supervisors,
        )

    return replace(
        snapshot,
        queue=tuple(entry for entry in snapshot.queue if entry.uuid not in started),
        supervisors=tuple(entry for entry in snapshot.supervisors if entry.uuid not in started),
        workers=tuple(with_placed(worker) for worker in snapshot.workers),
        most=None if snapshot.most is None else snapshot.most - len(decided.starts),
    )


def prepared(workers: Iterable[Worker]) -> dict[str, Status]:
    """The status of what occupies workers."""
    return {
        one.uuid: Status(Category.PREPARING, f"Preparing to run on {worker.id}.")
        for worker in workers
        for one in (*worker.occupants, *worker.supervisors)
    }


def explain(snapshot: Snapshot) -> dict[str, Status]:
    """Why each container of the queue waits, and what is prepared, in the state after `plan` was
    acted on.
    """
    decided = plan(snapshot)
    after = apply(snapshot, decided, now=float("inf"))
    found = prepared(after.workers)
    position = 0
    supervisors = {entry.uuid for entry in after.supervisors}
    for entry in sorted((*after.queue, *after.supervisors), key=order):
        if entry.uuid in found:
            continue
        blocked = _blocked(entry, after.workers)
        if entry.uuid in snapshot.held:
            found[entry.uuid] = Status(Category.HELD, snapshot.held[entry.uuid])
        elif blocked is not None:
            found[entry.uuid] = blocked
        elif snapshot.shortage:
            found[entry.uuid] = Status(
                Category.CAPACITY, f"Waiting: {snapshot.shortage}.", f"({snapshot.shortage})"
            )
        elif entry.uuid in supervisors:
            found[entry.uuid] = Status(
                Category.CAPACITY, _SUPERVISORS_WAIT, "for another workflow to end"
            )
        else:
            position += 1
            found[entry.uuid] = _waits(entry, after, position=position, head=decided.head)
    return found


class _Room:
    """What is left of one worker while a plan is made. Lives inside one call of `plan`."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.open = _free(worker)
        self._new = Resources()

    def holds(self, entry: Entry) -> bool:
        return entry.need.fits(self.open) and self.worker.admits(entry)

    def left(self, need: Resources) -> tuple[int, int, int, int, str]:
        rest = self.open - need
        return rest.gpus, rest.vcpus, rest.ram, rest.disk, self.worker.id

    def take(self, need: Resources) -> None:
        if not self.worker.queues:
            self.open -= need
            self._new += need

    def reserve(self, head: Entry) -> None:
        inside = self.worker.capacity - head.need - self._since(head)
        self.open = self.open.least(inside)

    def reserve_key(self, head: Entry) -> tuple[float, float, str]:
        capacity, before = self.worker.capacity, total(self._occupants_before(head))
        too_much = self._since(head) + head.need - capacity
        return max(0.0, too_much.share_of(capacity)), before.share_of(capacity), self.worker.id

    def _since(self, head: Entry) -> Resources:
        return self._new + total(
            one.need for one in self.worker.occupants if one.started >= head.seen
        )

    def _occupants_before(self, head: Entry) -> Iterable[Resources]:
        return (one.need for one in self.worker.occupants if one.started < head.seen)


def _supervisor_starts(snapshot: Snapshot) -> tuple[Start, ...]:
    """The supervisors to start now, each where supervisors have taken the least."""
    taken = snapshot.present | snapshot.held.keys()
    used = {
        worker.id: total(one.need for one in worker.supervisors).ram for worker in snapshot.workers
    }
    there = sum(len(worker.supervisors) for worker in snapshot.workers)
    most = (
        max(1, int(snapshot.quota * _SUPERVISOR_SHARE))
        if snapshot.quota
        else there + len(snapshot.supervisors)
    )
    starts: list[Start] = []
    for entry in sorted(snapshot.supervisors, key=order):
        if entry.uuid in taken or there + len(starts) >= most:
            continue
        able = [one for one in snapshot.workers if _has_room(one, entry, used=used[one.id])]
        if able:
            worker = min(able, key=lambda one: (used[one.id] / one.capacity.ram, one.id))
            used[worker.id] += entry.need.ram
            starts.append(Start(entry.uuid, worker.id))
    return tuple(starts)


def _has_room(worker: Worker, entry: Entry, *, used: int) -> bool:
    limit = int(worker.capacity.ram * _SUPERVISOR_SHARE) if used else worker.capacity.ram
    return worker.admits(entry) and used + entry.need.ram <= limit


def _grown(starts: list[Start], rooms: list[_Room], queue: tuple[Entry, ...]) -> tuple[Start, ...]:
    """The starts with what their workers have left once all of them are placed, for those that can
    be given more.
    """
    growth = {entry.uuid: entry.growth for entry in queue if entry.growth != Resources()}
    if not growth:
        return tuple(starts)
    by_worker = {room.worker.id: room for room in rooms}
    grown = []
    for start in starts:
        more, room = growth.get(start.uuid, Resources()), by_worker[start.worker]
        extra = Resources() if room.worker.queues else _positive(more.least(room.open))
        room.take(extra)
        grown.append(Start(start.uuid, start.worker, extra))
    return tuple(grown)


def _positive(amount: Resources) -> Resources:
    return Resources(max(0, amount.vcpus), max(0, amount.ram))


def _any_open(rooms: list[_Room]) -> bool:
    return any(room.open.vcpus > 0 and room.open.ram > 0 for room in rooms)


def _tightest(rooms: list[_Room], entry: Entry) -> _Room | None:
    fitting = (room for room in rooms if room.holds(entry))
    return min(fitting, key=lambda room: room.left(entry.need), default=None)


def _reservable(rooms: list[_Room], head: Entry) -> _Room | None:
    able = (room for room in rooms if room.worker.admits(head))
    return min(able, key=lambda room: room.reserve_key(head), default=None)


def _free(worker: Worker) -> Resources:
    return (
        worker.capacity
        if worker.queues
        else worker.capacity - total(one.need for one in worker.occupants)
    )


def _blocked(entry: Entry, workers: tuple[Worker, ...]) -> Status | None:
    if not workers:
        return Status(
            Category.NO_WORKER, "Waiting for a worker: none is ready.", "for a worker to be ready"
        )
    if any(worker.admits(entry) for worker in workers):
        return None
    odd = [
        (worker, why)
        for worker in workers
        if entry.need.fits(worker.capacity) and (why := worker.unsuited(entry))
    ]
    if odd:
        worker, why = odd[0]
        return Status(
            Category.TOO_LARGE, f"Not for this dispatcher: {worker.id} is none for it, as {why}."
        )
    if any(entry.need.fits(worker.capacity) for worker in workers):
        return Status(Category.PARTITION, _misplaced(entry, workers))
    nearest = _nearest(entry.need, [(worker, worker.capacity) for worker in workers])
    return Status(
        Category.TOO_LARGE,
        f"Too large for this dispatcher: it needs {entry.need}; "
        f"the nearest fit, {nearest.id}, has {nearest.capacity}. "
        "It stays queued until a worker can hold it.",
        f"for a worker that can hold {entry.need}",
    )


def _misplaced(entry: Entry, workers: tuple[Worker, ...]) -> str:
    here = (
        ", ".join(sorted({name for worker in workers for name in worker.partitions}))
        or "no partition"
    )
    names = ", ".join(sorted(entry.partitions))
    wanted = f"the partitions {names} only" if names else "no partition by name"
    return (
        f"Not for this dispatcher: it asks for {wanted}, "
        f"and no worker that takes it then can hold it; the workers here are in {here}."
    )


def _waits(entry: Entry, after: Snapshot, *, position: int, head: str) -> Status:
    where = f"Waiting in queue at position {position}"
    if after.slots == 0:
        most, verb = _containers(after.quota), "runs" if after.running == 1 else "run"
        sentence = f"{where}: the quota is {most} at a time, and {after.running} {verb} now."
        return Status(Category.QUOTA, sentence, f"for the quota of {most} at a time")
    if after.most is not None and after.most <= 0:
        sentence = f"{where}: the batch system has as many containers as it is given at once."
        return Status(
            Category.HANDED_OVER, sentence, "for the batch system to take more containers"
        )
    rooms = [(worker, _free(worker)) for worker in after.workers if worker.admits(entry)]
    if head != entry.uuid and any(entry.need.fits(free) for _, free in rooms):
        sentence = (
            f"{where}: there is room, "
            f"but it would hold up {head}, which needs more and comes first."
        )
        return Status(
            Category.BEHIND_HEAD, sentence, f"behind {head}, which needs more and came first"
        )
    nearest = _nearest(entry.need, rooms)
    free = f"{_free(nearest)} free of {nearest.capacity}"
    sentence = f"{where}: it needs {entry.need}; the nearest fit, {nearest.id}, has {free}."
    return Status(Category.CAPACITY, sentence, f"for {entry.need}")


def _nearest(need: Resources, rooms: Sequence[tuple[Worker, Resources]]) -> Worker:
    """The worker that lacks the smallest share of its capacity to hold `need` in its room."""

    def lacking(one: tuple[Worker, Resources]) -> tuple[float, str]:
        worker, room = one
        return (need - room).share_of(worker.capacity), worker.id

    return min(rooms, key=lacking)[0]


def _containers(number: int) -> str:
    return f"{number} {'container' if number == 1 else 'containers'}"
