"""Inputs of the dispatch loop: records that disagree with processes, the snapshot, wait reasons.

`differences` finds containers whose record and process disagree, `snapshot` is the input of the
planner, both at every step; `statuses` are the reasons why containers wait, made when they are
published. All are computed from the queue, the fleet's view and the loop's memory, and change none
of them, except for the time at which an ended container was first seen with a living process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from lading.core.containers.container import ContainerState
from lading.core.resources import Resources, rank_need
from lading.core.scheduling import expected_times, passing
from lading.core.scheduling.batch_explanation import explain as explain_wait
from lading.core.scheduling.planning import (
    FRONT,
    Category,
    FleetWorker,
    Occupant,
    Place,
    Snapshot,
    TrackedContainer,
    WaitStatus,
)
from lading.core.scheduling.reconcile import (
    Case,
    ProcessState,
    ReconcileAction,
    decide,
    record_state,
)
from lading.dispatch.fleet import FleetView
from lading.dispatch.queue import Queue
from lading.dispatch.state import DispatchState


def differences(
    queue: Queue, view: FleetView, state: DispatchState, *, now: float
) -> list[tuple[str, ReconcileAction]]:
    """The action for each container whose record and process disagree. A container that waits and
    has no process needs no action.
    """
    # Without the processes every container would look as if its supervisor were gone.
    if not view.is_known:
        return []
    actions: list[tuple[str, ReconcileAction]] = []
    for uuid in (*queue.others, *(uuid for uuid in view.processes if uuid not in queue.others)):
        if state.may_act(uuid, now=now):
            action = _difference(uuid, queue, view, state, now=now)
            if action is not ReconcileAction.LEAVE:
                actions.append((uuid, action))
    return actions


def snapshot(
    queue: Queue,
    view: FleetView,
    state: DispatchState,
    *,
    now: float,
    busy: tuple[float, float] = (0.0, 0.0),
) -> Snapshot:
    """The input of the planner. `busy`: when the API last was busy, and overloaded.

    A process counts against its worker until it is cleared away, but not once its record is
    Complete: then only the supervisor is left, putting things in order. Of one that is idle only
    the disk counts. Containers that run workflows are apart from the others, except before a batch
    system, which shares out its nodes itself.
    """
    queued, runners = queue.entries(), queue.workflow_runners()
    if any(worker.queues for worker in view.workers):
        queued, runners = (*queued, *runners), ()
    if not view.is_known:
        return Snapshot(queue=queued, workflow_runners=runners)
    if queue.has_gangs:
        queued = tuple(_spread(container, view.workers) for container in queued)
    placed = {uuid: (process.worker, *process.others) for uuid, process in view.processes.items()}
    placed.update((uuid, (worker, *state.others(uuid))) for uuid, worker in state.starting)
    at: dict[str, list[str]] = {}
    for uuid, workers_of in placed.items():
        for where in workers_of:
            at.setdefault(where, []).append(uuid)
    spread = {uuid for uuid, workers_of in placed.items() if len(workers_of) > 1}
    # Processes without a worker may be anywhere: they count against each, so that none is
    # overfilled.
    anywhere = at.get("", ())
    workers = tuple(
        _occupied(
            worker,
            tuple(_occupants(worker, uuids, queue, view, state, spread, now=now)),
            queue,
        )
        if (uuids := (*at.get(worker.id, ()), *anywhere))
        else worker
        for worker in view.workers
    )
    most = view.most
    if most is not None:
        # Starts under way are not in the fleet's own number yet.
        most = max(0, most - sum(uuid not in view.processes for uuid, _ in state.starting))
    return Snapshot(
        queue=queued,
        workflow_runners=runners,
        workers=workers,
        held_back=state.held(now=now) | state.unread(queue),
        quota=state.quota,
        most=most,
        shortage=view.shortage,
        now=now,
        kept_rooms=state.kept_rooms,
        passing=state.passing,
        busy_at=busy[0],
        overloaded_at=busy[1],
    )


def _occupied(worker: FleetWorker, occupants: tuple[Occupant, ...], queue: Queue) -> FleetWorker:
    """A worker of the view with its occupants; a batch system shares out its nodes itself."""
    runners = (
        ()
        if worker.queues
        else tuple(occupant for occupant in occupants if _runs_workflow(queue.get(occupant.uuid)))
    )
    # Done for each busy worker at each step: `replace` would take twice as long.
    return FleetWorker(
        worker.id, worker.capacity, worker.partitions, worker.queues, worker.closed,
        worker.gpu_kinds, worker.gpu_numbers, worker.nodes,
        tuple(occupant for occupant in occupants if occupant not in runners), runners,
        worker.others, worker.internet_fault, worker.gpu_fault,
    )  # fmt: skip


def _spread(container: TrackedContainer, workers: Iterable[FleetWorker]) -> TrackedContainer:
    """The container as a batch system is asked for it. A gang that is too large for one machine,
    but has enough machines for one rank each, is planned with the need of one rank. Any other
    container is unchanged.
    """
    if container.nodes == 1:
        return container
    able = [worker for worker in workers if worker.queues and worker.takes(container.partitions)]
    if any(container.need.fits(worker.capacity) for worker in able):
        return container
    each = container.each
    enough = any(
        worker.machines(container.partitions) >= container.nodes and each.fits(worker.capacity)
        for worker in able
    )
    return replace(container, need=each) if enough else container


def statuses(
    queue: Queue,
    view: FleetView,
    state: DispatchState,
    *,
    now: float,
    explain: Callable[[Snapshot], Mapping[str, WaitStatus]] = explain_wait,
) -> dict[str, WaitStatus]:
    """Reason why each container that has not started waits. The fleet's notes have precedence."""
    # To explain is to plan again: not where all have started, as between plain requests.
    if not queue.waiting and not any(map(_unstarted, queue.others.values())):
        return {}
    reasons = dict(explain(snapshot(queue, view, state, now=now)))
    for uuid, record in queue.waiting.items():
        if record.lacks:
            reasons[uuid] = WaitStatus(
                Category.PARTITION,
                f"Not for this dispatcher: it asks for {record.lacks}, which none of its machines "
                "offers (Containers.Capabilities). It stays queued until one does.",
            )
        elif not record.sized:
            reasons[uuid] = WaitStatus(Category.UNSIZED, f"Cannot be sized: {record.fault}.")
    for uuid, process in view.processes.items():
        if process.note:
            cause = f"({process.note.rstrip('.')})" if process.waiting else ""
            reasons[uuid] = WaitStatus(Category.PREPARING, process.note, cause)
        elif process.asking:
            reasons[uuid] = _asking(queue.get(uuid))
    return {uuid: status for uuid, status in reasons.items() if _unstarted(queue.get(uuid))}


def admitted(snapshot: Snapshot, queue: Queue, view: FleetView) -> list[str]:
    """The containers that were prepared without their VCPUs and may take them now."""
    asking = {
        uuid: _place(uuid, queue.get(uuid))
        for uuid, process in view.processes.items()
        if process.asking
    }
    return (
        [
            uuid
            for worker in snapshot.workers
            for uuid in passing.admitted(worker, asking, now=snapshot.now, limit=snapshot.passing)
        ]
        if asking
        else []
    )


def _place(uuid: str, record: TrackedContainer | None) -> Place:
    # A container without a known record comes first: there is no reason to let it wait.
    return record.place if record is not None else (*FRONT[:2], uuid)


def _asking(record: TrackedContainer | None) -> WaitStatus:
    need = str(record.need) if record is not None and record.sized else "room"
    sentence = f"Its image and inputs are ready; it waits for {need}."
    return WaitStatus(Category.CAPACITY, sentence, f"for {need} with its image and inputs ready")


def _unstarted(record: TrackedContainer | None) -> bool:
    return record is not None and record.state in (ContainerState.QUEUED, ContainerState.LOCKED)


def _process_state(uuid: str, view: FleetView, state: DispatchState) -> ProcessState:
    process = view.processes.get(uuid)
    if process is not None:
        return ProcessState.ALIVE if process.alive else ProcessState.EXITED
    # The process may be on a worker that has not answered yet.
    is_unsure = view.unasked and state.is_adopted(uuid)
    return ProcessState.UNKNOWN if is_unsure else ProcessState.ABSENT


def _difference(
    uuid: str, queue: Queue, view: FleetView, state: DispatchState, *, now: float
) -> ReconcileAction:
    record, process = queue.get(uuid), view.processes.get(uuid)
    if record is None:
        # A process without a known record: the record is fetched before a decision.
        return ReconcileAction.REREAD
    mine = queue.holds(record)
    process_state = _process_state(uuid, view, state)
    is_missing = mine and process_state is ProcessState.ABSENT and not record.final
    if is_missing and state.leave_to_twin(record, now=now):
        return ReconcileAction.LEAVE
    return decide(
        Case(
            record=record_state(record, mine=mine),
            process=process_state,
            fresh=record.version > state.read_after(uuid),
            lingering=process is not None
            and process.alive
            and (process.waiting or state.lingering(record, now=now)),
        )
    )


def _occupants(
    worker: FleetWorker,
    uuids: Iterable[str],
    queue: Queue,
    view: FleetView,
    state: DispatchState,
    spread: Collection[str],
    *,
    now: float,
) -> Iterator[Occupant]:
    for uuid in uuids:
        record, process = queue.get(uuid), view.processes.get(uuid)
        if record is None:
            need = worker.capacity
            need = need if process is None else process.takes(need)
            yield Occupant(uuid=uuid, need=need, started=state.began(uuid), queue_place=None)
        elif record.state is not ContainerState.COMPLETE or (
            # Another dispatcher has run it; an alternative that was locked takes its place here.
            process is None and state.is_starting(uuid)
        ):
            need = _need(record, worker)
            need = need if process is None else process.takes(need)
            if uuid in spread and record.sized:
                need = rank_need(need, record.nodes)
            # Once it is Locked or Running, `need` in the record includes its extra amounts.
            if record.state is ContainerState.QUEUED:
                need += state.given(uuid)
            began = state.began(uuid)
            ends = expected_times.expected_end(record, began=began, now=now)
            yield Occupant(
                uuid=uuid, need=need, started=began, ends=ends, queue_place=record.place,
                asks=process is not None and process.asking, gpu=record.gpu,
            )  # fmt: skip


def _runs_workflow(record: TrackedContainer | None) -> bool:
    return record is not None and record.runs_workflow


def _need(record: TrackedContainer | None, worker: FleetWorker) -> Resources:
    # A container of unknown size fills the worker: better idle for a moment than oversubscribed.
    return record.need if record is not None and record.sized else worker.capacity
