"""What the loop sees of queue and fleet together."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from lading.core.resources import Resources
from lading.core.scheduling.batch_planner import plan
from lading.core.scheduling.planning import FleetWorker, KeptRoom, Snapshot, WaitStatus
from lading.core.scheduling.reconcile import ReconcileAction
from lading.core.scheduling.wait_reasons import MISFITS
from lading.dispatch import observe
from lading.dispatch.fleet import FleetView, SupervisorProcess
from lading.dispatch.queue import Queue
from lading.dispatch.settings import DispatchSettings
from lading.dispatch.state import DispatchState

WORKER = FleetWorker("w", Resources(4, 40))


@pytest.fixture
def queue() -> Queue:
    return Queue(token="mine")


@pytest.fixture
def state() -> DispatchState:
    return DispatchState(DispatchSettings(), known_since=0)


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
    shown = {uuid: SupervisorProcess("w", alive=alive) for uuid, alive in processes.items()}
    return FleetView(is_known=True, workers=(WORKER,), processes=shown)


def occupants(queue: Queue, seen: FleetView, state: DispatchState) -> dict[str, Resources]:
    (worker,) = observe.snapshot(queue, seen, state, now=0.0).workers
    return {one.uuid: one.need for one in worker.occupants}


def test_nothing_is_seen_before_the_processes_are_known(queue: Queue, state: DispatchState) -> None:
    learn(queue, "a", "Running")
    learn(queue, "b", "Queued")
    assert observe.differences(queue, FleetView(), state, now=0.0) == []
    assert observe.snapshot(queue, FleetView(), state, now=0.0).workers == ()
    assert "none is ready" in observe.statuses(queue, FleetView(), state, now=0.0)["b"].sentence


def test_differences_from_both_sides(queue: Queue, state: DispatchState) -> None:
    learn(queue, "waiting", "Queued")
    learn(queue, "orphan", "Running")
    learn(queue, "fine", "Running")
    learn(queue, "dead", "Running")
    state.adopt(["orphan"])
    seen = view(fine=True, dead=False, unknown=True)
    found = dict(observe.differences(queue, seen, state, now=0.0))
    assert found == {
        "orphan": ReconcileAction.CANCEL,
        "dead": ReconcileAction.CLEAN,
        "unknown": ReconcileAction.REREAD,
    }


def test_what_an_earlier_dispatcher_locked_is_left_while_a_worker_was_not_asked(
    queue: Queue, state: DispatchState
) -> None:
    learn(queue, "adopted", "Running")
    learn(queue, "started", "Running")
    state.adopt(["adopted"])
    state.engage("started", now=0.0, worker="w")
    state.release("started")
    seen = replace(view(), unasked=("other",))
    assert observe.differences(queue, seen, state, now=0.0) == [("started", ReconcileAction.CANCEL)]
    assert (
        dict(observe.differences(queue, view(), state, now=0.0))["adopted"]
        is ReconcileAction.CANCEL
    )


def test_what_is_under_way_is_not_looked_at(queue: Queue, state: DispatchState) -> None:
    learn(queue, "orphan", "Running")
    state.engage("orphan", now=0.0)
    assert observe.differences(queue, view(), state, now=0.0) == []


def test_processes_and_starts_occupy_their_worker(queue: Queue, state: DispatchState) -> None:
    learn(queue, "running", "Running")
    learn(queue, "starting", "Queued")
    state.engage("starting", now=0.0, worker="w")
    assert occupants(queue, view(running=True), state) == {
        "running": Resources(1, 10),
        "starting": Resources(1, 10),
    }


def test_an_occupant_has_the_place_of_its_record(queue: Queue, state: DispatchState) -> None:
    learn(queue, "running", "Running", priority=7, created_at="2026")
    (worker,) = observe.snapshot(queue, view(running=True, stranger=True), state, now=0.0).workers
    assert {one.uuid: one.queue_place for one in worker.occupants} == {
        "running": (-7, "2026", "running"),
        "stranger": None,
    }


def test_a_dead_process_occupies_until_it_is_cleared_away(
    queue: Queue, state: DispatchState
) -> None:
    learn(queue, "dead", "Running")
    assert set(occupants(queue, view(dead=False), state)) == {"dead"}


def test_a_complete_container_occupies_nothing_a_cancelled_one_may(
    queue: Queue, state: DispatchState
) -> None:
    learn(queue, "complete", "Complete")
    learn(queue, "cancelled", "Cancelled")
    assert set(occupants(queue, view(complete=True, cancelled=True), state)) == {"cancelled"}


def test_of_what_saves_its_results_the_disk_counts(queue: Queue, state: DispatchState) -> None:
    mounts = {"/out": {"kind": "tmp", "capacity": 30}}
    disks = Queue(token="mine", plans_disk=True)
    for known in (queue, disks):
        learn(known, "saving", "Running", mounts=mounts, container_image="")
    seen = FleetView(
        is_known=True, workers=(WORKER,), processes={"saving": SupervisorProcess("w", idle=True)}
    )
    assert occupants(queue, seen, state) == {"saving": Resources()}
    assert occupants(disks, seen, state)["saving"].vcpus == 0
    assert occupants(disks, seen, state)["saving"].disk >= 30


def test_a_process_of_unknown_size_fills_its_worker(queue: Queue, state: DispatchState) -> None:
    assert occupants(queue, view(stranger=True), state) == {"stranger": WORKER.capacity}


def test_statuses_are_of_what_has_not_started(queue: Queue, state: DispatchState) -> None:
    learn(queue, "running", "Running")
    learn(queue, "locked", "Locked")
    learn(queue, "strange", "Queued", runtime_constraints={})
    found = observe.statuses(queue, view(running=True, locked=True), state, now=0.0)
    assert found["locked"].sentence == "Preparing to run on w."
    assert found["strange"].sentence.startswith("Cannot be sized: runtime_constraints.vcpus")
    assert "running" not in found


def test_nothing_is_planned_again_where_all_have_started(
    queue: Queue, state: DispatchState
) -> None:
    planned: list[Snapshot] = []

    def explain(seen: Snapshot) -> dict[str, WaitStatus]:
        planned.append(seen)
        return {}

    seen = view(running=True)
    learn(queue, "running", "Running")
    assert observe.statuses(queue, seen, state, now=0.0, explain=explain) == {}
    assert not planned
    learn(queue, "locked", "Locked")
    observe.statuses(queue, seen, state, now=0.0, explain=explain)
    assert planned


def test_what_is_being_started_counts_with_what_it_is_given(
    queue: Queue, state: DispatchState
) -> None:
    learn(queue, "a", "Queued", constraint_ranges={"ram": [10, 30]})
    state.engage("a", now=0.0, worker="w", extra=Resources(0, 20))
    assert occupants(queue, view(), state) == {"a": Resources(1, 30)}
    learn(queue, "a", "Locked", runtime_constraints={"vcpus": 1, "ram": 30})
    assert occupants(queue, view(), state) == {"a": Resources(1, 30)}
    state.release("a")
    assert state.given("a") == Resources()


def test_what_another_dispatcher_with_this_token_locked_is_left_alone(
    queue: Queue, state: DispatchState
) -> None:
    learn(queue, "locked", "Locked")
    learn(queue, "running", "Running")
    assert observe.differences(queue, view(), state, now=0.0) == []
    assert observe.differences(queue, view(), state, now=59.0) == []
    assert observe.differences(queue, view(), state, now=61.0) == [
        ("locked", ReconcileAction.REQUEUE)
    ]
    state.adopt(["running"])
    assert (
        dict(observe.differences(queue, view(), state, now=0.0))["running"]
        is ReconcileAction.CANCEL
    )


def test_what_was_given_back_may_be_locked_by_another_next(
    queue: Queue, state: DispatchState
) -> None:
    learn(queue, "a", "Locked")
    state.engage("a", now=0.0, worker="w")
    state.release("a")
    assert observe.differences(queue, view(), state, now=0.0) == [("a", ReconcileAction.REQUEUE)]
    state.disown("a")
    assert observe.differences(queue, view(), state, now=0.0) == []


def test_what_the_fleet_says_of_a_process_is_its_status(queue: Queue, state: DispatchState) -> None:
    learn(queue, "a", "Locked")
    seen = FleetView(
        is_known=True,
        workers=(WORKER,),
        processes={"a": SupervisorProcess("w", note="Waiting in Slurm as job 7.")},
    )
    assert (
        observe.statuses(queue, seen, state, now=0.0)["a"].sentence == "Waiting in Slurm as job 7."
    )


def test_what_is_being_started_counts_against_the_most(queue: Queue, state: DispatchState) -> None:
    state.engage("a", now=0.0, worker="w")
    seen = FleetView(is_known=True, workers=(WORKER,), most=3)
    assert observe.snapshot(queue, seen, state, now=0.0).most == 2


def test_containers_that_run_workflows_are_counted_apart(
    queue: Queue, state: DispatchState
) -> None:
    for uuid, name in (("waiting", "Queued"), ("running", "Running"), ("plain", "Queued")):
        learn(queue, uuid, name, scheduling_parameters={"supervisor": uuid != "plain"})
    seen = observe.snapshot(queue, view(running=True), state, now=0.0)
    assert [one.uuid for one in seen.workflow_runners] == ["waiting"]
    assert [one.uuid for one in seen.queue] == ["plain"]
    assert [one.uuid for one in seen.workers[0].workflow_runners] == ["running"]
    assert seen.workers[0].occupants == ()


def test_a_batch_system_takes_them_like_all_others(queue: Queue, state: DispatchState) -> None:
    for uuid, name in (("waiting", "Queued"), ("running", "Running")):
        learn(queue, uuid, name, scheduling_parameters={"supervisor": True})
    batch = FleetView(
        is_known=True,
        workers=(replace(WORKER, queues=True),),
        processes={"running": SupervisorProcess("w")},
    )
    seen = observe.snapshot(queue, batch, state, now=0.0)
    assert ([one.uuid for one in seen.queue], seen.workflow_runners) == (["waiting"], ())
    assert [one.uuid for one in seen.workers[0].occupants] == ["running"]


def test_what_has_not_started_is_stopped_as_soon_as_its_record_has_ended(
    queue: Queue, state: DispatchState
) -> None:
    learn(queue, "waits", "Cancelled")
    learn(queue, "tidies", "Cancelled")
    shown = {"waits": SupervisorProcess("w", waiting=True), "tidies": SupervisorProcess("w")}
    seen = FleetView(is_known=True, workers=(WORKER,), processes=shown)
    assert observe.differences(queue, seen, state, now=0.0) == [("waits", ReconcileAction.KILL)]


@pytest.mark.parametrize(
    ("nodes", "machines", "seen"), [(1, 9, 8), (4, 4, 2), (4, 3, 8), (2, 4, 8)]
)
def test_a_gang_that_no_machine_holds_is_spread_where_there_are_enough(
    queue: Queue, state: DispatchState, nodes: int, machines: int, seen: int
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
    kind = FleetWorker("kind", Resources(3, 40), queues=True, nodes={"": machines})
    (entry,) = observe.snapshot(
        queue, FleetView(is_known=True, workers=(kind,)), state, now=0.0
    ).queue
    assert entry.need.vcpus == seen


def test_a_gang_that_a_machine_holds_stays_together(queue: Queue, state: DispatchState) -> None:
    learn(queue, "a", "Queued", scheduling_parameters={"nodes": 3})
    kind = FleetWorker("kind", Resources(4, 40), queues=True, nodes={"": 9})
    (entry,) = observe.snapshot(
        queue, FleetView(is_known=True, workers=(kind,)), state, now=0.0
    ).queue
    assert entry.need.vcpus == 3


@pytest.mark.parametrize(
    ("named", "seen"), [([], 2), (["few"], 6), (["many"], 2), (["few", "many"], 2), (["large"], 6)]
)
def test_a_gang_is_judged_by_the_partitions_that_it_names(
    queue: Queue, state: DispatchState, named: list[str], seen: int
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
    small = FleetWorker(
        "s", Resources(2, 40), frozenset({"many", "few"}), queues=True, nodes=counts
    )
    large = FleetWorker(
        "l", Resources(8, 80), frozenset({"large"}), queues=True, closed=True, nodes={"large": 1}
    )
    (entry,) = observe.snapshot(
        queue, FleetView(is_known=True, workers=(small, large)), state, now=0.0
    ).queue
    assert entry.need.vcpus == seen


def test_each_worker_of_a_gang_has_those_of_its_ranks_that_are_there(
    queue: Queue, state: DispatchState
) -> None:
    for uuid in ("runs", "starts"):
        learn(queue, uuid, "Locked", scheduling_parameters={"nodes": 3})
    state.engage("starts", now=0.0, worker="w", others=("v", "v"))
    process = SupervisorProcess("v", others=("w", "w"))
    seen = FleetView(
        is_known=True,
        workers=(WORKER, FleetWorker("v", WORKER.capacity)),
        processes={"runs": process},
    )
    found = observe.snapshot(queue, seen, state, now=0.0).workers
    assert [[one.uuid for one in worker.occupants] for worker in found] == [
        ["runs", "runs", "starts"],
        ["runs", "starts", "starts"],
    ]
    assert {one.need for worker in found for one in worker.occupants} == {Resources(1, 10)}
    state.release("starts")
    assert state.others("starts") == ()


def test_a_container_without_a_known_record_takes_its_turn_first(
    queue: Queue, state: DispatchState
) -> None:
    learn(queue, "high", "Locked", priority=(1 << 62) - 1)
    asking = {uuid: SupervisorProcess("w", asking=True) for uuid in ("high", "unknown")}
    seen = FleetView(is_known=True, workers=(WORKER,), processes=asking)
    snapshot = observe.snapshot(queue, seen, state, now=0.0)
    assert observe.admitted(snapshot, queue, seen) == ["unknown"]


def test_containers_that_were_prepared_take_their_turn_before_new_ones(
    queue: Queue, state: DispatchState
) -> None:
    for uuid, priority in (("low", 1), ("high", 2)):
        learn(queue, uuid, "Locked", priority=priority, runtime_constraints={"vcpus": 3, "ram": 10})
    learn(queue, "getting ready", "Locked")
    learn(queue, "new", "Queued")
    asking = {uuid: SupervisorProcess("w", asking=True) for uuid in ("low", "high")}
    seen = FleetView(
        is_known=True,
        workers=(WORKER,),
        processes={**asking, "getting ready": SupervisorProcess("w", preparing=True)},
    )
    snapshot = observe.snapshot(queue, seen, state, now=0.0)
    assert observe.admitted(snapshot, queue, seen) == ["high"]
    assert plan(snapshot).starts == ()
    said = observe.statuses(queue, seen, state, now=0.0)
    assert (
        said["low"].sentence
        == "Its image and inputs are ready; it waits for 3 VCPUs and 10 bytes RAM."
    )


def test_the_planner_knows_run_times_and_the_rooms_that_are_kept(queue: Queue) -> None:
    state = DispatchState(DispatchSettings(passing=60.0), known_since=0)
    known = {"scheduling_parameters": {"expected_run_time": 30}}
    for uuid in ("mine", "old"):
        learn(queue, uuid, "Running", **known)
    learn(queue, "waits", "Queued", runtime_constraints={"vcpus": 4, "ram": 10})
    state.engage("mine", now=5.0, worker="w")
    state.kept_rooms = {"waits": KeptRoom("w", since=6.0)}
    found = observe.snapshot(queue, view(mine=True, old=True), state, now=10.0)
    ends = {one.uuid: one.ends for one in found.workers[0].occupants}
    # When the one of an earlier dispatcher began is not known.
    assert ends == {"mine": 35.0, "old": inf}
    assert (found.now, found.passing, found.kept_rooms) == (10.0, 60.0, state.kept_rooms)


def test_what_asks_for_a_capability_that_no_machine_offers_waits_with_the_reason() -> None:
    queue = Queue(token="mine", offered={"clock": True, "level": 3})
    state = DispatchState(DispatchSettings(), known_since=0)
    for uuid, more in (("fits", {"clock": True, "level": [1, 3]}), ("waits", {"fpga": True})):
        learn(queue, uuid, "Queued", runtime_constraints={"vcpus": 1, "ram": 10, **more})
    snapshot = observe.snapshot(queue, view(), state, now=0.0)
    assert [one.uuid for one in plan(snapshot).starts] == ["fits"]
    found = observe.statuses(queue, view(), state, now=0.0)["waits"]
    assert "it asks for fpga, which none of its machines offers" in found.sentence
    assert found.category in MISFITS
