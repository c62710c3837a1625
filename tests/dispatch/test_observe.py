"""What the loop sees of queue and fleet together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lading.core.resources import Resources
from lading.core.scheduling.batch_planner import plan
from lading.core.scheduling.reconcile import Action
from lading.dispatch import observe
from lading.dispatch.fleet import FleetView, Process, WorkerView
from lading.dispatch.queue import Queue
from lading.dispatch.settings import Settings
from lading.dispatch.state import Ledger

WORKER = WorkerView("w", Resources(4, 40))


@pytest.fixture
def queue() -> Queue:
    return Queue(token="mine")


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(Settings(), known_since=0)


def learn(queue: Queue, uuid: str, state: str, **more: Any) -> None:
    constraints = {"vcpus": 1, "ram": 10}
    item = {
        "uuid": uuid,
        "state": state,
        "priority": 1,
        "runtime_constraints": constraints,
        "locked_by_uuid": "mine",
    }
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
    assert "none is ready" in observe.statuses(queue, FleetView(), ledger, now=0.0)["b"].sentence


def test_differences_from_both_sides(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "waiting", "Queued")
    learn(queue, "orphan", "Running")
    learn(queue, "fine", "Running")
    learn(queue, "dead", "Running")
    ledger.adopt(["orphan"])
    seen = view(fine=True, dead=False, unknown=True)
    found = dict(observe.differences(queue, seen, ledger, now=0.0))
    assert found == {"orphan": Action.CANCEL, "dead": Action.CLEAN, "unknown": Action.REREAD}


def test_what_an_earlier_dispatcher_locked_is_left_while_a_worker_was_not_asked(
    queue: Queue, ledger: Ledger
) -> None:
    learn(queue, "adopted", "Running")
    learn(queue, "started", "Running")
    ledger.adopt(["adopted"])
    ledger.engage("started", now=0.0, worker="w")
    ledger.release("started")
    seen = replace(view(), unasked=("other",))
    assert observe.differences(queue, seen, ledger, now=0.0) == [("started", Action.CANCEL)]
    assert dict(observe.differences(queue, view(), ledger, now=0.0))["adopted"] is Action.CANCEL


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


def test_a_complete_container_occupies_nothing_a_cancelled_one_may(
    queue: Queue, ledger: Ledger
) -> None:
    learn(queue, "complete", "Complete")
    learn(queue, "cancelled", "Cancelled")
    assert set(occupants(queue, view(complete=True, cancelled=True), ledger)) == {"cancelled"}


def test_of_what_saves_its_results_the_disk_counts(queue: Queue, ledger: Ledger) -> None:
    mounts = {"/out": {"kind": "tmp", "capacity": 30}}
    disks = Queue(token="mine", plans_disk=True)
    for known in (queue, disks):
        learn(known, "saving", "Running", mounts=mounts, container_image="")
    seen = FleetView(known=True, workers=(WORKER,), processes={"saving": Process("w", idle=True)})
    assert occupants(queue, seen, ledger) == {"saving": Resources()}
    assert occupants(disks, seen, ledger)["saving"].vcpus == 0
    assert occupants(disks, seen, ledger)["saving"].disk >= 30


def test_a_process_of_unknown_size_fills_its_worker(queue: Queue, ledger: Ledger) -> None:
    assert occupants(queue, view(stranger=True), ledger) == {"stranger": WORKER.capacity}


def test_statuses_are_of_what_has_not_started(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "running", "Running")
    learn(queue, "locked", "Locked")
    learn(queue, "strange", "Queued", runtime_constraints={})
    found = observe.statuses(queue, view(running=True, locked=True), ledger, now=0.0)
    assert found["locked"].sentence == "Preparing to run on w."
    assert found["strange"].sentence.startswith("Cannot be sized: runtime_constraints.vcpus")
    assert "running" not in found


def test_what_is_being_started_counts_with_what_it_is_given(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "a", "Queued", constraint_ranges={"ram": [10, 30]})
    ledger.engage("a", now=0.0, worker="w", extra=Resources(0, 20))
    assert occupants(queue, view(), ledger) == {"a": Resources(1, 30)}
    learn(queue, "a", "Locked", runtime_constraints={"vcpus": 1, "ram": 30})
    assert occupants(queue, view(), ledger) == {"a": Resources(1, 30)}
    ledger.release("a")
    assert ledger.given("a") == Resources()


def test_what_another_dispatcher_with_this_token_locked_is_left_alone(
    queue: Queue, ledger: Ledger
) -> None:
    learn(queue, "locked", "Locked")
    learn(queue, "running", "Running")
    assert observe.differences(queue, view(), ledger, now=0.0) == []
    assert observe.differences(queue, view(), ledger, now=59.0) == []
    assert observe.differences(queue, view(), ledger, now=61.0) == [("locked", Action.REQUEUE)]
    ledger.adopt(["running"])
    assert dict(observe.differences(queue, view(), ledger, now=0.0))["running"] is Action.CANCEL


def test_what_was_given_back_may_be_locked_by_another_next(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "a", "Locked")
    ledger.engage("a", now=0.0, worker="w")
    ledger.release("a")
    assert observe.differences(queue, view(), ledger, now=0.0) == [("a", Action.REQUEUE)]
    ledger.disown("a")
    assert observe.differences(queue, view(), ledger, now=0.0) == []


def test_what_the_fleet_says_of_a_process_is_its_status(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "a", "Locked")
    seen = FleetView(
        known=True,
        workers=(WORKER,),
        processes={"a": Process("w", note="Waiting in Slurm as job 7.")},
    )
    assert (
        observe.statuses(queue, seen, ledger, now=0.0)["a"].sentence == "Waiting in Slurm as job 7."
    )


def test_what_is_being_started_counts_against_the_most(queue: Queue, ledger: Ledger) -> None:
    ledger.engage("a", now=0.0, worker="w")
    seen = FleetView(known=True, workers=(WORKER,), most=3)
    assert observe.snapshot(queue, seen, ledger, now=0.0).most == 2


def test_containers_that_run_workflows_are_counted_apart(queue: Queue, ledger: Ledger) -> None:
    for uuid, state in (("waiting", "Queued"), ("running", "Running"), ("plain", "Queued")):
        learn(queue, uuid, state, scheduling_parameters={"supervisor": uuid != "plain"})
    seen = observe.snapshot(queue, view(running=True), ledger, now=0.0)
    assert [one.uuid for one in seen.supervisors] == ["waiting"]
    assert [one.uuid for one in seen.queue] == ["plain"]
    assert [one.uuid for one in seen.workers[0].supervisors] == ["running"]
    assert seen.workers[0].occupants == ()


def test_a_batch_system_takes_them_like_all_others(queue: Queue, ledger: Ledger) -> None:
    for uuid, state in (("waiting", "Queued"), ("running", "Running")):
        learn(queue, uuid, state, scheduling_parameters={"supervisor": True})
    batch = FleetView(
        known=True, workers=(replace(WORKER, queues=True),), processes={"running": Process("w")}
    )
    seen = observe.snapshot(queue, batch, ledger, now=0.0)
    assert ([one.uuid for one in seen.queue], seen.supervisors) == (["waiting"], ())
    assert [one.uuid for one in seen.workers[0].occupants] == ["running"]


def test_what_has_not_started_is_stopped_as_soon_as_its_record_has_ended(
    queue: Queue, ledger: Ledger
) -> None:
    learn(queue, "waits", "Cancelled")
    learn(queue, "tidies", "Cancelled")
    shown = {"waits": Process("w", waiting=True), "tidies": Process("w")}
    seen = FleetView(known=True, workers=(WORKER,), processes=shown)
    assert observe.differences(queue, seen, ledger, now=0.0) == [("waits", Action.KILL)]


@pytest.mark.parametrize(
    ("nodes", "machines", "seen"), [(1, 9, 8), (4, 4, 2), (4, 3, 8), (2, 4, 8)]
)
def test_a_gang_that_no_machine_holds_is_spread_where_there_are_enough(
    queue: Queue, ledger: Ledger, nodes: int, machines: int, seen: int
) -> None:
    item = {
        "uuid": "a",
        "state": "Queued",
        "priority": 1,
        "scheduling_parameters": {"nodes": nodes},
    }
    queue.merge(
        [item | {"runtime_constraints": {"vcpus": 8 // nodes, "ram": 10}}],
        ticket=queue.ticket(),
        now=0.0,
    )
    kind = WorkerView("kind", Resources(3, 40), queues=True, nodes={"": machines})
    (entry,) = observe.snapshot(
        queue, FleetView(known=True, workers=(kind,)), ledger, now=0.0
    ).queue
    assert entry.need.vcpus == seen


def test_a_gang_that_a_machine_holds_stays_together(queue: Queue, ledger: Ledger) -> None:
    learn(queue, "a", "Queued", scheduling_parameters={"nodes": 3})
    kind = WorkerView("kind", Resources(4, 40), queues=True, nodes={"": 9})
    (entry,) = observe.snapshot(
        queue, FleetView(known=True, workers=(kind,)), ledger, now=0.0
    ).queue
    assert entry.need.vcpus == 3


@pytest.mark.parametrize(
    ("named", "seen"), [([], 2), (["few"], 6), (["many"], 2), (["few", "many"], 2), (["large"], 6)]
)
def test_a_gang_is_judged_by_the_partitions_that_it_names(
    queue: Queue, ledger: Ledger, named: list[str], seen: int
) -> None:
    """Only in `large` is a machine that holds all of it; in `few` there are not enough, and all are
    in `many`.
    """
    gang = {"nodes": 3, "partitions": named}
    learn(
        queue,
        "a",
        "Queued",
        runtime_constraints={"vcpus": 2, "ram": 10},
        scheduling_parameters=gang,
    )
    counts = {"many": 3, "few": 2, "": 3}
    small = WorkerView("s", Resources(2, 40), frozenset({"many", "few"}), queues=True, nodes=counts)
    large = WorkerView(
        "l", Resources(8, 80), frozenset({"large"}), queues=True, closed=True, nodes={"large": 1}
    )
    (entry,) = observe.snapshot(
        queue, FleetView(known=True, workers=(small, large)), ledger, now=0.0
    ).queue
    assert entry.need.vcpus == seen


def test_each_worker_of_a_gang_has_those_of_its_ranks_that_are_there(
    queue: Queue, ledger: Ledger
) -> None:
    for uuid in ("runs", "starts"):
        learn(queue, uuid, "Locked", scheduling_parameters={"nodes": 3})
    ledger.engage("starts", now=0.0, worker="w", others=("v", "v"))
    process = Process("v", others=("w", "w"))
    seen = FleetView(
        known=True, workers=(WORKER, WorkerView("v", WORKER.capacity)), processes={"runs": process}
    )
    found = observe.snapshot(queue, seen, ledger, now=0.0).workers
    assert [[one.uuid for one in worker.occupants] for worker in found] == [
        ["runs", "runs", "starts"],
        ["runs", "starts", "starts"],
    ]
    assert {one.need for worker in found for one in worker.occupants} == {Resources(1, 10)}
    ledger.release("starts")
    assert ledger.others("starts") == ()


def test_containers_that_were_prepared_take_their_turn_before_new_ones(
    queue: Queue, ledger: Ledger
) -> None:
    for uuid, priority in (("low", 1), ("high", 2)):
        learn(queue, uuid, "Locked", priority=priority, runtime_constraints={"vcpus": 3, "ram": 10})
    learn(queue, "getting ready", "Locked")
    learn(queue, "new", "Queued")
    asking = {uuid: Process("w", asking=True) for uuid in ("low", "high")}
    seen = FleetView(
        known=True,
        workers=(WORKER,),
        processes={**asking, "getting ready": Process("w", preparing=True)},
    )
    snapshot = observe.snapshot(queue, seen, ledger, now=0.0)
    assert observe.admitted(snapshot, queue, seen) == ["high"]
    assert plan(snapshot).starts == ()
    said = observe.statuses(queue, seen, ledger, now=0.0)
    assert (
        said["low"].sentence
        == "Its image and inputs are ready; it waits for 3 VCPUs and 10 bytes RAM."
    )
