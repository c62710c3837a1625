"""What the loop sees of queue and fleet together."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.reconcile import Action
from lading.core.sizing import Resources
from lading.dispatch import observe
from lading.dispatch.fleet import FleetView, Process, WorkerView
from lading.dispatch.ledger import Ledger
from lading.dispatch.queue import Queue
from lading.dispatch.settings import Settings

WORKER = WorkerView("w", Resources(4, 40))


@pytest.fixture
def queue() -> Queue:
    return Queue(token="mine")


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(Settings(), known_since=0)


def learn(queue: Queue, uuid: str, state: str, **more: Any) -> None:
    constraints = {"vcpus": 1, "ram": 10}
    item = {"uuid": uuid, "state": state, "priority": 1, "runtime_constraints": constraints, "locked_by_uuid": "mine"}
    queue.merge([item | more], ticket=queue.ticket(), now=0.0)


def view(**processes: bool) -> FleetView:
    shown = {uuid: Process("w", alive=alive) for uuid, alive in processes.items()}
    return FleetView(known=True, workers=(WORKER,), processes=shown)


def occupants(queue: Queue, seen: FleetView, ledger: Ledger) -> dict[str, Resources]:
    (worker,) = observe.snapshot(queue, seen, ledger, now=0.0).workers
    return {one.uuid: one.need for one in worker.occupants}


def test_nothing_is_seen_before_the_processes_are_known(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "a", "Running")
    learn(queue, "b", "Queued")
    assert observe.differences(queue, FleetView(), ledger, now=0.0) == []
    assert observe.snapshot(queue, FleetView(), ledger, now=0.0).workers == ()
    assert "none is ready" in observe.statuses(queue, FleetView(), ledger, now=0.0)["b"]


def test_differences_from_both_sides(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "waiting", "Queued")
    learn(queue, "orphan", "Running")
    learn(queue, "fine", "Running")
    learn(queue, "dead", "Running")
    seen = view(fine=True, dead=False, unknown=True)
    found = dict(observe.differences(queue, seen, ledger, now=0.0))
    assert found == {"orphan": Action.CANCEL, "dead": Action.CLEAN, "unknown": Action.REREAD}


def test_what_is_under_way_is_not_looked_at(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "orphan", "Running")
    ledger.engage("orphan", now=0.0)
    assert observe.differences(queue, view(), ledger, now=0.0) == []


def test_processes_and_starts_occupy_their_worker(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "running", "Running")
    learn(queue, "starting", "Queued")
    ledger.engage("starting", now=0.0, worker="w")
    assert occupants(queue, view(running=True), ledger) == {
        "running": Resources(1, 10),
        "starting": Resources(1, 10),
    }


def test_a_dead_process_occupies_until_it_is_cleared_away(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "dead", "Running")
    assert set(occupants(queue, view(dead=False), ledger)) == {"dead"}


def test_a_complete_container_occupies_nothing_a_cancelled_one_may(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "complete", "Complete")
    learn(queue, "cancelled", "Cancelled")
    assert set(occupants(queue, view(complete=True, cancelled=True), ledger)) == {"cancelled"}


def test_a_process_of_unknown_size_fills_its_worker(queue: Queue, ledger: Ledger) -> None:
    assert occupants(queue, view(stranger=True), ledger) == {"stranger": WORKER.capacity}


def test_statuses_are_of_what_has_not_started(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "running", "Running")
    learn(queue, "locked", "Locked")
    learn(queue, "strange", "Queued", runtime_constraints={})
    found = observe.statuses(queue, view(running=True, locked=True), ledger, now=0.0)
    assert found["locked"] == "Preparing to run on w."
    assert found["strange"].startswith("Cannot be sized: runtime_constraints.vcpus")
    assert "running" not in found


def test_what_is_being_started_counts_with_what_it_is_given(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "a", "Queued", constraint_ranges={"ram": [10, 30]})
    ledger.engage("a", now=0.0, worker="w", extra=Resources(0, 20))
    assert occupants(queue, view(), ledger) == {"a": Resources(1, 30)}
    learn(queue, "a", "Locked", runtime_constraints={"vcpus": 1, "ram": 30})
    assert occupants(queue, view(), ledger) == {"a": Resources(1, 30)}
    ledger.release("a")
    assert ledger.given("a") == Resources()
