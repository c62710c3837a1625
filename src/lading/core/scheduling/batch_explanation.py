"""Reasons why containers wait for the workers of a dispatcher, in sentences.

`explain` plans, assumes the plan carried out, and words for each container that is left what it
lacks. It is called when reasons are published, not at every event as `batch_planner.plan` is.

Source: docs/spec/dispatch, section Planning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from lading.core.containers.gpu_words import in_words
from lading.core.resources import Resources, format_bytes
from lading.core.scheduling import passing
from lading.core.scheduling.batch_planner import apply, plan
from lading.core.scheduling.gpu_kinds import unsuited_kinds
from lading.core.scheduling.instance_types import Gpu, gpu_lack
from lading.core.scheduling.planning import (
    Category,
    FitKey,
    FleetWorker,
    Reservation,
    Snapshot,
    TrackedContainer,
    WaitStatus,
    by_place,
)

# Reasons, and names of workers for each, that a sentence tells.
_MOST_REASONS, _MOST_NAMES = 3, 3
_WORKFLOWS_WAIT = (
    "Waiting for another workflow to end: "
    "those in progress have all the room that is set aside for workflows."
)


def prepared(workers: Iterable[FleetWorker]) -> dict[str, WaitStatus]:
    """Statuses of the containers that occupy workers."""
    return {
        occupant.uuid: WaitStatus(Category.PREPARING, f"Preparing to run on {worker.id}.")
        for worker in workers
        for occupant in (*worker.occupants, *worker.workflow_runners)
    }


def explain(snapshot: Snapshot) -> dict[str, WaitStatus]:
    """Reason why each container of the queue waits, and the containers to prepare, after `plan` was
    carried out.
    """
    decided = plan(snapshot)
    # At infinity they started after every head was queued, and count as having passed it.
    after = apply(snapshot, decided, now=float("inf"))
    statuses = prepared(after.workers)
    reasons, position = _WaitReasons(after, decided.reservations), 0
    workflow_runners = {container.uuid for container in after.workflow_runners}
    for container in sorted((*after.queue, *after.workflow_runners), key=by_place):
        if container.uuid in statuses:
            continue
        blocked = reasons.blocked(container)
        if container.uuid in snapshot.held_back:
            statuses[container.uuid] = WaitStatus(Category.HELD, snapshot.held_back[container.uuid])
        elif blocked is not None:
            statuses[container.uuid] = blocked
        elif snapshot.shortage:
            statuses[container.uuid] = WaitStatus(
                Category.CAPACITY, f"Waiting: {snapshot.shortage}.", f"({snapshot.shortage})"
            )
        elif container.uuid in workflow_runners:
            statuses[container.uuid] = WaitStatus(
                Category.CAPACITY, _WORKFLOWS_WAIT, "for another workflow to end"
            )
        else:
            position += 1
            statuses[container.uuid] = reasons.waits(container, position=position)
    return statuses


def _blocked(container: TrackedContainer, workers: tuple[FleetWorker, ...]) -> WaitStatus | None:
    if not workers:
        return WaitStatus(
            Category.NO_WORKER, "Waiting for a worker: none is ready.", "for a worker to be ready"
        )
    if any(worker.admits(container) for worker in workers):
        return None
    if container.gpu.count and (lacks := _gpu_lacks(container, workers)):
        return WaitStatus(Category.TOO_LARGE, _no_gpus(container, lacks), "for GPUs of this kind")
    large_enough = [worker for worker in workers if container.need.fits(worker.capacity)]
    for worker in large_enough:
        if reason := worker.unsuited(container):
            return WaitStatus(
                Category.TOO_LARGE,
                f"Not for this dispatcher: {worker.id} is none for it, as {reason}.",
            )
    if large_enough:
        return WaitStatus(Category.PARTITION, _misplaced(container, workers))
    if crowded := _crowded(container, workers):
        return crowded
    nearest = _nearest(container.need, [(worker, _whole(worker)) for worker in workers])
    return WaitStatus(
        Category.TOO_LARGE,
        f"Too large for this dispatcher: it needs {container.need}; "
        f"the nearest fit, {nearest.id}, has {_whole(nearest)}. "
        "It stays queued until a worker can hold it.",
        f"for a worker that can hold {container.need}",
    )


def _crowded(container: TrackedContainer, workers: tuple[FleetWorker, ...]) -> WaitStatus | None:
    """The wait for RAM of a worker that other programs use; None if no worker lacks that alone."""
    worker = next((worker for worker in workers if _is_crowded(worker, container)), None)
    if worker is None:
        return None
    sentence = (
        f"Waiting: it needs {container.need}; {worker.id} has {worker.capacity} while "
        f"other programs there use {format_bytes(worker.others)} of its RAM."
    )
    return WaitStatus(Category.CAPACITY, sentence, "for RAM that other programs used")


def _gpu_lacks(
    container: TrackedContainer, workers: tuple[FleetWorker, ...]
) -> dict[str, list[str]]:
    """The names of the workers by the reason that their GPUs do not suit; empty if those of some
    worker do.
    """
    lacks: dict[str, list[str]] = {}
    for worker in sorted(workers, key=lambda worker: worker.id):
        count = worker.capacity.gpus
        # Of a worker whose kinds are not known, and of a gang on one machine, the number counts.
        why = unsuited_kinds(container.gpu, _kinds(worker)) or gpu_lack(
            Gpu(count=container.need.gpus), Gpu(count=count)
        )
        if not why:
            return {}
        if worker.gpu_fault:
            why = f"{why}; out of service: {worker.gpu_fault}"
        lacks.setdefault(why, []).append(worker.id)
    return lacks


def _kinds(worker: FleetWorker) -> tuple[Gpu, ...]:
    """The kinds of a worker's GPUs; of one kind as many as its capacity has."""
    kinds = (Gpu(),) if worker.gpu_kinds is None else worker.gpu_kinds
    count = worker.capacity.gpus
    return (structs.replace(kinds[0], count=count),) if len(kinds) == 1 else kinds


def _no_gpus(container: TrackedContainer, lacks: Mapping[str, Sequence[str]]) -> str:
    """The sentence that tells which workers lack what."""
    needed = _gpus_in_words(container)
    # Those that lack least come first: fewer workers are of a kind than have none.
    reasons = sorted(lacks.items(), key=lambda lack: (len(lack[1]), lack[0]))
    shown = "; ".join(f"{_some(names)}: {why}" for why, names in reasons[:_MOST_REASONS])
    more = "; and others" if len(reasons) > _MOST_REASONS else ""
    return f"Not for this dispatcher: it needs {needed}, which no machine has ({shown}{more})."


def _gpus_in_words(container: TrackedContainer) -> str:
    asked = container.gpu
    return in_words(
        container.need.gpus,
        memory=asked.vram,
        kinds=asked.targets,
        version=asked.driver,
        stack=asked.stack,
    )


def _some(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _is_crowded(worker: FleetWorker, container: TrackedContainer) -> bool:
    """Whether a container would fit without the other programs of a machine, which may end."""
    return bool(worker.others) and container.need.fits(_whole(worker))


def _whole(worker: FleetWorker) -> Resources:
    """The capacity of a worker with the RAM of its other programs. It is the same from one plan to
    the next, so that a sentence with it is recorded once.
    """
    return worker.capacity + Resources(0, worker.others)


def _misplaced(container: TrackedContainer, workers: tuple[FleetWorker, ...]) -> str:
    available = (
        ", ".join(sorted({name for worker in workers for name in worker.partitions}))
        or "no partition"
    )
    names = ", ".join(sorted(container.partitions))
    wanted = f"the partitions {names} only" if names else "no partition by name"
    return (
        f"Not for this dispatcher: it asks for {wanted}, "
        f"and no worker that takes it then can hold it; the workers here are in {available}."
    )


class _WaitReasons:
    """Reasons why containers wait in one state of the workers. Lives inside one call of `explain`.

    Containers of equal needs share the search for a worker, and workers of equal capacity and room
    are looked at once: of 1,000 containers and 250 workers few are different.
    """

    def __init__(self, after: Snapshot, reservations: Sequence[Reservation]) -> None:
        self._after = after
        self._running, self._slots = after.running, after.slots
        self._blocked: dict[FitKey, WaitStatus | None] = {}
        self._fits: dict[FitKey, tuple[str, str, str]] = {}
        # Equal workers differ by their names alone; the first name is reported.
        alike: dict[tuple[object, ...], tuple[FleetWorker, Resources]] = {}
        first: dict[str, str] = {}
        for worker in sorted(after.workers, key=lambda worker: worker.id):
            free = worker.free
            kinds = worker.gpu_kinds
            # Of several kinds others may be free.
            name = worker.id if len(kinds or ()) > 1 else ""
            key = (worker.capacity, free, worker.partitions, worker.closed, kinds, name)
            first[worker.id] = alike.setdefault(key, (worker, free))[0].id
        self._rooms = list(alike.values())
        # The first container for which one of several equal workers keeps room.
        self._reserved_for = {
            first[reservation.worker]: reservation.uuid for reservation in reversed(reservations)
        }

    def blocked(self, container: TrackedContainer) -> WaitStatus | None:
        """Reason why no worker can ever hold the container, or None."""
        wanted = container.fit_key
        if wanted not in self._blocked:
            self._blocked[wanted] = _blocked(container, self._after.workers)
        return self._blocked[wanted]

    def waits(self, container: TrackedContainer, *, position: int) -> WaitStatus:
        """Reason why a container waits although some worker can hold it."""
        where, after = f"Waiting in queue at position {position}", self._after
        if self._slots == 0:
            most, verb = _containers(after.quota), "runs" if self._running == 1 else "run"
            sentence = f"{where}: the quota is {most} at a time, and {self._running} {verb} now."
            return WaitStatus(Category.QUOTA, sentence, f"for the quota of {most} at a time")
        if after.most is not None and after.most <= 0:
            sentence = f"{where}: the batch system has as many containers as it is given at once."
            return WaitStatus(
                Category.HANDED_OVER, sentence, "for the batch system to take more containers"
            )
        missing, cause, first = self._nearest_fit(container)
        if first:
            sentence = (
                f"{where}: there is room, "
                f"but it would hold up {first}, which needs more and comes first."
                f"{passing.behind_sentence(after.passing)}"
            )
            cause = f"behind {first}, which needs more and came first"
            return WaitStatus(Category.BEHIND_HEAD, sentence, cause)
        passed = passing.head_sentence(after.passing) if container.uuid in after.kept_rooms else ""
        return WaitStatus(Category.CAPACITY, f"{where}: {missing}{passed}", cause)

    def _nearest_fit(self, container: TrackedContainer) -> tuple[str, str, str]:
        """A clause on the worker that lacks least, the cause of the wait, and, where a worker has
        room, the container for which it is kept.
        """
        fit_key = container.fit_key
        if fit_key not in self._fits:
            rooms = [room for room in self._rooms if room[0].admits(container)]
            nearest = _nearest(container.need, rooms)
            fitting = [worker for worker, free in rooms if container.need.fits(free)]
            open_ = [worker for worker in fitting if worker.has_gpus(container, worker.occupants)]
            missing = (
                f"it needs {container.need}; the nearest fit, {nearest.id}, "
                f"has {nearest.free} free of {nearest.capacity}."
            )
            if fitting and not open_:
                missing = f"it needs {_gpus_in_words(container)}; those of {nearest.id} are in use."
            if container.gpu.count and nearest.gpu_fault:
                missing += f" Out of service there: {nearest.gpu_fault}."
            kept = (self._reserved_for.get(worker.id, "") for worker in open_)
            self._fits[fit_key] = missing, f"for {container.need}", next(filter(None, kept), "")
        return self._fits[fit_key]


def _nearest(need: Resources, rooms: Sequence[tuple[FleetWorker, Resources]]) -> FleetWorker:
    """The worker that lacks the smallest share of its capacity to hold `need` in its room."""

    def lacking(pair: tuple[FleetWorker, Resources]) -> tuple[float, str]:
        worker, room = pair
        return (need - room).share_of(worker.capacity), worker.id

    return min(rooms, key=lacking)[0]


def _containers(number: int) -> str:
    return f"{number} {'container' if number == 1 else 'containers'}"
