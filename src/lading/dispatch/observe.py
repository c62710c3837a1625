"""What the loop looks at: what disagrees and what could start, at every step; and why containers
wait, now and then.

All are made from the queue, the fleet's view and the loop's memory, and change none of them but for
the moment at which an ended container was first seen with a living process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from lading.core.containers.container import State
from lading.core.resources import Resources, rank_need
from lading.core.scheduling import batch_planner
from lading.core.scheduling.batch_planner import Category, Entry, Occupant, Snapshot, Status, Worker
from lading.core.scheduling.batch_planner import explain as explain_standing
from lading.core.scheduling.reconcile import Action, Case, View, decide, standing
from lading.dispatch.fleet import FleetView, WorkerView
from lading.dispatch.queue import Queue, Record
from lading.dispatch.state import Ledger


def differences(
    queue: Queue, view: FleetView, ledger: Ledger, *, now: float
) -> list[tuple[str, Action]]:
    """What to do about every container whose record and process disagree. Waiting ones without a
    process do not.
    """
    if not view.known:
        return []
    found: list[tuple[str, Action]] = []
    for uuid in (*queue.others, *(uuid for uuid in view.processes if uuid not in queue.others)):
        if ledger.may_act(uuid, now=now):
            action = _difference(uuid, queue, view, ledger, now=now)
            if action is not Action.LEAVE:
                found.append((uuid, action))
    return found


def snapshot(
    queue: Queue,
    view: FleetView,
    ledger: Ledger,
    *,
    now: float,
    busy: tuple[float, float] = (0.0, 0.0),
) -> Snapshot:
    """What the planner looks at. `busy`: when the API last was busy, and overloaded.

    A process counts against its worker until it is cleared away, but not once its record is
    Complete: then only the supervisor is left, putting things in order. Of one that is idle only
    the disk counts. Containers that run workflows are apart from the others, except before a batch
    system, which shares out its nodes itself.
    """
    queued, supervisors = queue.entries(), queue.supervisors()
    if any(worker.queues for worker in view.workers):
        queued, supervisors = (*queued, *supervisors), ()
    if not view.known:
        return Snapshot(queue=queued, supervisors=supervisors)
    queued = tuple(_spread(entry, view.workers) for entry in queued)
    placed = {uuid: (process.worker, *process.others) for uuid, process in view.processes.items()}
    placed.update((uuid, (worker, *ledger.others(uuid))) for uuid, worker in ledger.starting)
    at: dict[str, list[str]] = {}
    for uuid, workers_of in placed.items():
        for where in workers_of:
            at.setdefault(where, []).append(uuid)
    spread = {uuid for uuid, workers_of in placed.items() if len(workers_of) > 1}
    workers = []
    for worker in view.workers:
        there = tuple(
            _occupants(
                worker, (*at.get(worker.id, ()), *at.get("", ())), queue, view, ledger, spread
            )
        )
        apart = (
            () if worker.queues else tuple(one for one in there if _supervises(queue.get(one.uuid)))
        )
        workers.append(
            Worker(
                id=worker.id,
                capacity=worker.capacity,
                occupants=tuple(one for one in there if one not in apart),
                supervisors=apart,
                partitions=worker.partitions,
                queues=worker.queues,
                closed=worker.closed,
                gpu=worker.gpu,
            )
        )
    most = view.most
    if most is not None:
        most = max(0, most - sum(uuid not in view.processes for uuid, _ in ledger.starting))
    return Snapshot(
        queue=queued,
        supervisors=supervisors,
        workers=tuple(workers),
        held=ledger.held(now=now),
        quota=ledger.quota,
        most=most,
        shortage=view.shortage,
        busy_at=busy[0],
        overloaded_at=busy[1],
    )


def _spread(entry: Entry, workers: Iterable[WorkerView]) -> Entry:
    """The entry of a gang that is too large for any one machine of a batch system where it may run,
    which has enough of them for it to have one for each rank: by what it needs of each.
    """
    if entry.nodes == 1:
        return entry
    able = [one for one in workers if one.queues and one.takes(entry.partitions)]
    if any(entry.need.fits(one.capacity) for one in able):
        return entry
    each = rank_need(entry.need, entry.nodes)
    enough = any(
        one.machines(entry.partitions) >= entry.nodes and each.fits(one.capacity) for one in able
    )
    return replace(entry, need=each) if enough else entry


def statuses(
    queue: Queue,
    view: FleetView,
    ledger: Ledger,
    *,
    now: float,
    explain: Callable[[Snapshot], Mapping[str, Status]] = explain_standing,
) -> dict[str, Status]:
    """Why each container that has not started waits. What the fleet says of a process goes
    first.
    """
    found = dict(explain(snapshot(queue, view, ledger, now=now)))
    for uuid, record in queue.waiting.items():
        if record.need is None:
            found[uuid] = Status(Category.UNSIZED, f"Cannot be sized: {record.fault}.")
    for uuid, process in view.processes.items():
        if process.note:
            cause = f"({process.note.rstrip('.')})" if process.waiting else ""
            found[uuid] = Status(Category.PREPARING, process.note, cause)
        elif process.asking:
            found[uuid] = _asking(queue.get(uuid))
    return {uuid: one for uuid, one in found.items() if _unstarted(queue.get(uuid))}


def admitted(seen: Snapshot, queue: Queue, view: FleetView) -> list[str]:
    """The containers that were prepared without their VCPUs and may take them now."""
    asking = {
        uuid: _place(uuid, queue.get(uuid))
        for uuid, process in view.processes.items()
        if process.asking
    }
    return (
        [uuid for worker in seen.workers for uuid in batch_planner.admitted(worker, asking)]
        if asking
        else []
    )


def _place(uuid: str, record: Record | None) -> tuple[int, str, str]:
    return (-record.priority, record.created_at, uuid) if record is not None else (0, "", uuid)


def _asking(record: Record | None) -> Status:
    need = "room" if record is None or record.need is None else str(record.need)
    sentence = f"Its image and inputs are ready; it waits for {need}."
    return Status(Category.CAPACITY, sentence, f"for {need} with its image and inputs ready")


def _unstarted(record: Record | None) -> bool:
    return record is not None and record.state in (State.QUEUED, State.LOCKED)


def _difference(uuid: str, queue: Queue, view: FleetView, ledger: Ledger, *, now: float) -> Action:
    record, process = queue.get(uuid), view.processes.get(uuid)
    if record is None:
        return Action.REREAD
    mine = queue.holds(record)
    seen = View.ABSENT if process is None else View.ALIVE if process.alive else View.EXITED
    if process is None and view.unasked and ledger.is_adopted(uuid):
        seen = View.UNKNOWN
    if mine and seen is View.ABSENT and not record.final and ledger.leave_to_twin(record, now=now):
        return Action.LEAVE
    where = standing(record.state, priority=record.priority, mine=mine)
    return decide(
        Case(
            standing=where,
            view=seen,
            fresh=record.version > ledger.read_after(uuid),
            lingering=process is not None
            and process.alive
            and (process.waiting or ledger.lingering(record, now=now)),
        )
    )


def _occupants(
    worker: WorkerView,
    uuids: Iterable[str],
    queue: Queue,
    view: FleetView,
    ledger: Ledger,
    spread: Collection[str],
) -> Iterator[Occupant]:
    for uuid in uuids:
        record = queue.get(uuid)
        if not (record and record.state is State.COMPLETE):
            waiting = record is not None and record.state is State.QUEUED
            extra = ledger.given(uuid) if waiting else Resources()
            process = view.processes.get(uuid)
            need = (
                _need(record, worker) if process is None else process.takes(_need(record, worker))
            )
            if record is not None and record.need is not None and uuid in spread:
                need = rank_need(need, record.nodes)
            yield Occupant(uuid=uuid, need=need + extra, started=ledger.began(uuid))


def _supervises(record: Record | None) -> bool:
    return record is not None and record.supervises


def _need(record: Record | None, worker: WorkerView) -> Resources:
    # A container of unknown size fills the worker: better idle for a moment than oversubscribed.
    return record.need if record is not None and record.need is not None else worker.capacity
