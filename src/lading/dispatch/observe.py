"""What the loop looks at: what disagrees and what could start, at every step; and why containers wait, now and then.

All are made from the queue, the fleet's view and the loop's memory, and change none of them but for the moment at
which an ended container was first seen with a living process.
"""

from __future__ import annotations

from collections.abc import Iterator

from lading.core.container import State
from lading.core.plan import Occupant, Snapshot, Worker, explain
from lading.core.reconcile import Action, Case, View, decide, standing
from lading.core.sizing import Resources
from lading.dispatch.fleet import FleetView, WorkerView
from lading.dispatch.ledger import Ledger
from lading.dispatch.queue import Queue, Record


def differences(queue: Queue, view: FleetView, ledger: Ledger, *, now: float) -> list[tuple[str, Action]]:
    """What to do about every container whose record and process disagree. Waiting ones without a process do not."""
    if not view.known:
        return []
    found: list[tuple[str, Action]] = []
    for uuid in (*queue.others, *(uuid for uuid in view.processes if uuid not in queue.others)):
        if ledger.may_act(uuid, now=now):
            action = _difference(uuid, queue, view, ledger, now=now)
            if action is not Action.LEAVE:
                found.append((uuid, action))
    return found


def snapshot(queue: Queue, view: FleetView, ledger: Ledger, *, now: float) -> Snapshot:
    """What the planner looks at.

    A process counts against its worker until it is cleared away, but not once its record is Complete: then only the
    supervisor is left, putting things in order.
    """
    if not view.known:
        return Snapshot(queue=queue.entries())
    placed: dict[str, str] = {uuid: process.worker for uuid, process in view.processes.items()}
    placed.update(ledger.starting)
    workers = []
    for worker in view.workers:
        occupants = tuple(_occupants(worker, placed, queue, ledger))
        workers.append(Worker(id=worker.id, capacity=worker.capacity, occupants=occupants))
    return Snapshot(queue=queue.entries(), workers=tuple(workers), held=ledger.held(now=now))


def statuses(queue: Queue, view: FleetView, ledger: Ledger, *, now: float) -> dict[str, str]:
    """Why each container that has not started waits, as sentences."""
    found = {uuid: one.sentence for uuid, one in explain(snapshot(queue, view, ledger, now=now)).items()}
    for uuid, record in queue.waiting.items():
        if record.need is None:
            found[uuid] = f"Cannot be sized: {record.fault}."
    return {uuid: text for uuid, text in found.items() if _unstarted(queue.get(uuid))}


def _unstarted(record: Record | None) -> bool:
    return record is not None and record.state in (State.QUEUED, State.LOCKED)


def _difference(uuid: str, queue: Queue, view: FleetView, ledger: Ledger, *, now: float) -> Action:
    record, process = queue.get(uuid), view.processes.get(uuid)
    if record is None:
        return Action.REREAD
    seen = View.ABSENT if process is None else View.ALIVE if process.alive else View.EXITED
    where = standing(record.state, priority=record.priority, mine=queue.holds(record))
    return decide(
        Case(
            standing=where,
            view=seen,
            fresh=record.version > ledger.read_after(uuid),
            lingering=seen is View.ALIVE and ledger.lingering(record, now=now),
        )
    )


def _occupants(worker: WorkerView, placed: dict[str, str], queue: Queue, ledger: Ledger) -> Iterator[Occupant]:
    for uuid, where in placed.items():
        record = queue.get(uuid)
        if where in (worker.id, "") and not (record and record.state is State.COMPLETE):
            waiting = record is not None and record.state is State.QUEUED
            extra = ledger.given(uuid) if waiting else Resources()
            yield Occupant(uuid=uuid, need=_need(record, worker) + extra, started=ledger.began(uuid))


def _need(record: Record | None, worker: WorkerView) -> Resources:
    # A container of unknown size fills the worker: better idle for a moment than oversubscribed.
    return record.need if record is not None and record.need is not None else worker.capacity
