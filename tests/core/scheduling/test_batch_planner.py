"""Planning: rules as examples, promises as properties."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lading.core.resources import Resources, total
from lading.core.scheduling.batch_explanation import explain
from lading.core.scheduling.batch_planner import apply, plan
from lading.core.scheduling.instance_types import Gpu
from lading.core.scheduling.passing import admitted
from lading.core.scheduling.planning import (
    Category,
    DispatchPlan,
    FleetWorker,
    Occupant,
    Reservation,
    Snapshot,
    StartDecision,
    TrackedContainer,
    by_place,
)
from tests.core.scheduling.snapshots import (
    CARD,
    SMALL,
    WHOLE,
    entry,
    gpu_snapshot,
    named,
    old,
    snapshots,
    starts,
    worker,
)


def test_priority_then_age_decides() -> None:
    queue = (entry("c", created="2"), entry("b", created="1"), entry("a", 9, created="3"))
    assert starts(Snapshot(queue=queue, workers=(worker(capacity=Resources(2, 20)),))) == ["a", "b"]


def test_priorities_are_exact_integers() -> None:
    high = 1000 * 2**50
    queue = (entry("late", high - 1), entry("soon", high))
    assert [one.uuid for one in sorted(queue, key=by_place)] == ["soon", "late"]


def test_the_fullest_worker_that_fits_is_packed() -> None:
    workers = (worker(id="empty"), worker(old("x", Resources(2, 20)), id="half"))
    assert plan(Snapshot(queue=(entry("a"),), workers=workers)).starts == (
        StartDecision("a", "half"),
    )


def test_small_containers_do_not_starve_the_head() -> None:
    head = entry("head", 9, WHOLE, seen=5.0)
    snapshot = Snapshot(queue=(head, entry("small")), workers=(worker(old("x")),))
    assert plan(snapshot) == DispatchPlan(reservations=(Reservation("head", "w"),))


def test_backfill_inside_what_the_head_leaves() -> None:
    head = entry("head", 9, Resources(3, 30))
    snapshot = Snapshot(
        queue=(head, entry("one"), entry("two")), workers=(worker(old("x", Resources(2, 20))),)
    )
    assert starts(snapshot) == ["one"]


def test_what_started_since_the_head_was_queued_counts() -> None:
    head = entry("head", 9, Resources(3, 30), seen=5.0)
    since = Occupant(uuid="y", need=SMALL, started=6.0)
    assert starts(Snapshot(queue=(head, entry("one")), workers=(worker(old("x"), since),))) == []


def test_what_goes_before_the_head_is_not_counted_against_it() -> None:
    head = entry("head", 9, Resources(3, 30), seen=5.0)
    for priority, started in ((10, ["one"]), (8, [])):
        since = Occupant(uuid="y", need=SMALL, started=6.0, queue_place=entry("y", priority).place)
        snapshot = Snapshot(queue=(head, entry("one")), workers=(worker(old("x"), since),))
        assert starts(snapshot) == started


def test_what_one_plan_starts_before_and_after_the_head() -> None:
    queue = (entry("first", 9, Resources(2, 20)), entry("head", 8, Resources(3, 30)), entry("last"))
    snapshot = Snapshot(queue=queue, workers=(worker(),))
    assert starts(snapshot) == ["first", "last"]
    after = apply(snapshot, plan(snapshot), now=1.0)
    (there,) = after.workers
    assert [one.passed(queue[1]) for one in there.occupants] == [False, True]
    assert plan(after) == DispatchPlan(reservations=(Reservation("head", "w"),))


def test_the_reservation_stays_where_nothing_has_passed_the_head() -> None:
    """Two workers are filled before the head in the pass in which it is first seen. Neither is
    given to those behind it when the other one is left."""
    queue = (
        entry("a", 9, Resources(4, 40), seen=1.0), entry("b", 9, Resources(3, 30), seen=1.0),
        entry("head", 8, WHOLE, seen=1.0),
        *(entry(f"small{number}", seen=1.0) for number in range(5)),
    )  # fmt: skip
    snapshot = Snapshot(queue=queue, workers=(worker(id="v"), worker(id="w")))
    for moment, leaving in enumerate(("", "b", "a")):
        left = replace(snapshot, workers=tuple(_without(one, leaving) for one in snapshot.workers))
        snapshot = apply(left, plan(left), now=1.0 + moment)
    assert "head" not in {one.uuid for one in snapshot.queue}


def test_room_is_reserved_for_all_that_fit_together() -> None:
    pair, large = Resources(2, 20), Resources(8, 80)
    queue = (
        entry("a", 9, pair), entry("large", 8, large), entry("b", 7, pair), entry("c", 6, pair),
        entry("d", 5, pair), *(entry(f"small{number}") for number in range(4)),
    )  # fmt: skip
    there = worker(*(old(f"x{n}") for n in range(6)), capacity=Resources(9, 90))
    decided = plan(Snapshot(queue=queue, workers=(there,)))
    # No pair fits beside "large", which is the head.
    assert [one.uuid for one in decided.starts] == ["a", "small0"]
    assert [one.uuid for one in decided.reservations] == ["large"]
    there = worker(*(old(f"x{n}") for n in range(8)), capacity=Resources(9, 90))
    decided = plan(Snapshot(queue=queue, workers=(there,)))
    # Four pairs leave 1 VCPU, which a small one may have; "large" fits beside none of them.
    assert [one.uuid for one in decided.reservations] == ["a", "b", "c", "d"]
    assert [one.uuid for one in decided.starts] == ["small0"]


def test_reservations_are_bounded_in_large_fleets() -> None:
    queue = tuple(entry(f"q{number:03}", need=WHOLE) for number in range(100))
    workers = tuple(worker(old(f"x{number}"), id=f"w{number:03}") for number in range(400))
    assert len(plan(Snapshot(queue=queue, workers=workers)).reservations) == 25


def test_small_ones_of_lower_priority_do_not_take_the_place_of_large_ones() -> None:
    """Both kinds always wait, and single small ones end: the large ones get the machine."""
    random, capacity = Random(7), Resources(8, 80)
    small = tuple(entry(f"small{number:04}", 1) for number in range(2000))
    large = tuple(entry(f"large{number:04}", 2, Resources(2, 20)) for number in range(1000))
    first = Snapshot(queue=small, workers=(worker(capacity=capacity),))
    snapshot = apply(first, plan(first), now=0.0)
    snapshot = replace(snapshot, queue=(*snapshot.queue, *large))
    ends = {one.uuid: random.uniform(1, 2) for one in snapshot.workers[0].occupants}
    now = used = 0.0
    for _ in range(400):
        uuid = min(ends, key=lambda one: ends[one])
        (there,) = snapshot.workers
        busy = sum(one.need.vcpus for one in there.occupants if one.uuid.startswith("large"))
        before, now = now, ends.pop(uuid)
        used += busy * (now - before)
        snapshot = replace(snapshot, workers=(_without(there, uuid),))
        decided = plan(snapshot)
        snapshot = apply(snapshot, decided, now=now)
        ends |= {one.uuid: now + random.uniform(1, 2) for one in decided.starts}
    assert used > 0.9 * capacity.vcpus * now


def test_other_workers_are_free_for_all() -> None:
    head = entry("head", 9, WHOLE)
    workers = (worker(old("x"), id="busy"), worker(id="tiny", capacity=Resources(1, 10)))
    assert plan(Snapshot(queue=(head, entry("a")), workers=workers)).starts == (
        StartDecision("a", "tiny"),
    )


def test_too_large_and_held_block_nobody() -> None:
    queue = (entry("huge", 9, Resources(99, 1)), entry("held", 8, WHOLE), entry("a"))
    snapshot = Snapshot(queue=queue, workers=(worker(),), held_back={"held": "Pausing."})
    assert starts(snapshot) == ["a"]


def test_what_occupies_a_worker_is_not_started_again() -> None:
    assert starts(Snapshot(queue=(entry("x"),), workers=(worker(old("x")),))) == []


def test_supervisors_leave_the_processors_to_those_they_wait_for() -> None:
    queue, runners = (entry("child", need=WHOLE),), (entry("s1"), entry("s2"), entry("s3"))
    snapshot = Snapshot(queue=queue, workflow_runners=runners, workers=(worker(),))
    assert starts(snapshot) == ["s1", "s2", "child"], (
        "each has 10 of the 20 bytes that are half of the worker's"
    )
    after = apply(snapshot, plan(snapshot), now=1.0)
    assert [one.uuid for one in after.workers[0].workflow_runners] == ["s1", "s2"]
    assert (after.running, after.present) == (1, {"s1", "s2", "child"})
    assert plan(after) == DispatchPlan()
    assert "for another workflow to end" in explain(snapshot)["s3"].sentence


def test_supervisors_spread_and_start_when_all_else_is_full() -> None:
    full = worker(old("x", WHOLE), id="full")
    taken = replace(full, id="taken", workflow_runners=(old("s"),))
    snapshot = Snapshot(
        workflow_runners=(entry("a"), entry("s"), entry("held")),
        workers=(taken, full),
        held_back={"held": ""},
    )
    assert plan(snapshot).starts == (StartDecision("a", "full"),)


def test_there_is_always_room_for_one_supervisor_that_fits() -> None:
    large, huge = entry("large", need=Resources(1, 40)), entry("huge", 9, need=Resources(1, 41))
    snapshot = Snapshot(workflow_runners=(large, huge), workers=(worker(),), quota=1)
    assert starts(snapshot) == ["large"]
    assert explain(snapshot)["huge"].category is Category.TOO_LARGE
    under_way = replace(
        snapshot,
        workflow_runners=(entry("next"),),
        workers=(replace(worker(), workflow_runners=(old("s"),)),),
    )
    assert plan(under_way) == DispatchPlan(), "a quota of one is full"
    assert starts(replace(under_way, quota=4)) == ["next"]


def test_without_workers_everything_waits() -> None:
    snapshot = Snapshot(queue=(entry("a"),))
    assert plan(snapshot) == DispatchPlan()
    assert explain(snapshot)["a"].category is Category.NO_WORKER


def test_no_more_than_the_quota_run_at_a_time() -> None:
    snapshot = Snapshot(
        queue=(entry("a"), entry("b"), entry("c")), workers=(worker(old("x")),), quota=2
    )
    assert starts(snapshot) == ["a"]
    found = explain(snapshot)
    assert found["b"].category is Category.QUOTA
    assert found["b"].sentence == (
        "Waiting in queue at position 1: the quota is 2 containers at a time, and 2 run now."
    )
    full = Snapshot(queue=(entry("a"),), workers=(worker(old("x")),), quota=1)
    assert plan(full) == DispatchPlan()
    assert "the quota is 1 container at a time, and 1 runs now." in explain(full)["a"].sentence


def test_what_is_left_goes_to_those_that_can_be_given_more() -> None:
    one = replace(entry("a", 2), growth=Resources(9, 15))
    two = replace(entry("b"), growth=Resources(9, 9))
    decided = plan(Snapshot(queue=(one, two), workers=(worker(),)))
    assert decided.starts == (
        StartDecision("a", "w", Resources(2, 15)),
        StartDecision("b", "w", Resources(0, 5)),
    )


@given(snapshots())
def test_never_oversubscribes_and_never_starts_twice(snapshot: Snapshot) -> None:
    decided = plan(snapshot)
    assert len({one.uuid for one in decided.starts}) == len(decided.starts)
    after = apply(snapshot, decided, now=10.0)
    assert not snapshot.quota or after.running <= max(snapshot.quota, snapshot.running)
    for one in after.workers:
        assert total(occupant.need for occupant in one.occupants).fits(one.capacity)


@given(snapshots())
def test_a_plan_applied_to_its_own_result_is_empty(snapshot: Snapshot) -> None:
    assert plan(apply(snapshot, plan(snapshot), now=10.0)).starts == ()


@given(snapshots())
def test_equal_needs_start_in_order(snapshot: Snapshot) -> None:
    same = Snapshot(
        queue=tuple(entry(e.uuid, e.priority) for e in snapshot.queue), workers=snapshot.workers
    )
    chosen = starts(same)
    assert chosen == [one.uuid for one in sorted(same.queue, key=by_place)][: len(chosen)]


@given(snapshots(), st.randoms(use_true_random=False))
def test_the_head_never_starves(snapshot: Snapshot, random: Random) -> None:
    """It starts when all that was there or went before it has ended, though nothing that passed it
    ever ends.
    """
    queue = tuple(
        TrackedContainer(
            uuid=one.uuid, priority=one.priority, created_at="", need=one.need, seen_at=20.0
        )
        for one in snapshot.queue
    )
    snapshot = Snapshot(queue=queue, workers=snapshot.workers)
    first = plan(snapshot)
    snapshot = apply(snapshot, first, now=20.0)
    if not first.reservations:
        return
    waits = first.reservations[0].uuid
    head = next(by_place(one) for one in queue if one.uuid == waits)
    passed = {one.uuid for one in queue if by_place(one) > head}
    leaving = [
        one.uuid for place in snapshot.workers for one in place.occupants if one.uuid not in passed
    ]
    random.shuffle(leaving)
    for moment, uuid in enumerate(leaving):
        arrival = entry(
            f"new{moment}",
            -1,
            Resources(random.randint(1, 6), random.randint(1, 60)),
            seen=21.0 + moment,
        )
        snapshot = Snapshot(
            queue=(*snapshot.queue, arrival),
            workers=tuple(_without(w, uuid) for w in snapshot.workers),
        )
        snapshot = apply(snapshot, plan(snapshot), now=21.0 + moment)
    assert waits not in {one.uuid for one in snapshot.queue}


def _without(one: FleetWorker, uuid: str) -> FleetWorker:
    occupants = tuple(occupant for occupant in one.occupants if occupant.uuid != uuid)
    return FleetWorker(id=one.id, capacity=one.capacity, occupants=occupants)


def test_partitions_are_honoured() -> None:
    workers = (
        FleetWorker(id="any", capacity=WHOLE),
        FleetWorker(id="gpu", capacity=WHOLE, partitions=frozenset({"gpu"}), closed=True),
    )
    queue = (
        named("a"),
        named("b", "gpu", "big"),
        named("c", "big"),
        named("d", need=Resources(99, 1)),
    )
    snapshot = Snapshot(queue=queue, workers=workers)
    assert plan(snapshot).starts == (StartDecision("a", "any"), StartDecision("b", "gpu"))
    found = explain(snapshot)
    assert found["c"].category is Category.PARTITION
    assert "it asks for the partitions big only" in found["c"].sentence
    assert "the workers here are in gpu" in found["c"].sentence
    assert found["d"].category is Category.TOO_LARGE


def test_a_closed_worker_takes_nothing_that_names_no_partition() -> None:
    snapshot = Snapshot(
        queue=(named("a"),), workers=(FleetWorker(id="w", capacity=WHOLE, closed=True),)
    )
    assert plan(snapshot).starts == ()
    assert explain(snapshot)["a"].sentence == (
        "Not for this dispatcher: it asks for no partition by name, "
        "and no worker that takes it then can hold it; the workers here are in no partition."
    )


def test_a_batch_system_takes_more_than_it_can_run_at_once() -> None:
    slurm = FleetWorker(id="slurm", capacity=WHOLE, occupants=(old("x", WHOLE),), queues=True)
    more = TrackedContainer(uuid="c", priority=1, created_at="c", need=SMALL, growth=SMALL)
    queue = (
        named("a", need=WHOLE),
        named("b", need=WHOLE),
        more,
        named("d", need=Resources(99, 1)),
    )
    snapshot = Snapshot(queue=queue, workers=(slurm,))
    assert {one.uuid: one.extra for one in plan(snapshot).starts} == {
        one: Resources() for one in "abc"
    }
    assert plan(apply(snapshot, plan(snapshot), now=1.0)).starts == ()


def test_it_is_given_no_more_than_it_takes_at_a_time() -> None:
    snapshot = Snapshot(
        queue=(named("a"), named("b")),
        workers=(FleetWorker(id="slurm", capacity=WHOLE, queues=True),),
        most=1,
    )
    assert starts(snapshot) == ["a"]
    assert starts(apply(snapshot, plan(snapshot), now=1.0)) == []
    assert explain(snapshot)["b"].category is Category.HANDED_OVER


def test_where_something_is_short_nothing_starts_and_it_is_told() -> None:
    queue, runners = (named("a"), named("b", need=Resources(99, 99))), (named("s"),)
    workers = (FleetWorker(id="w", capacity=WHOLE),)
    snapshot = Snapshot(
        queue=queue, workflow_runners=runners, workers=workers, shortage="the disk is full"
    )
    assert plan(snapshot).starts == ()
    told = explain(snapshot)
    assert told["a"].sentence == told["s"].sentence == "Waiting: the disk is full."
    assert told["b"].category is Category.TOO_LARGE


def test_gpus_and_disk_are_planned_too() -> None:
    capacity = Resources(4, 40, disk=100, gpus=1)
    needs = [
        Resources(1, 10, gpus=1),
        Resources(1, 10, gpus=1),
        Resources(1, 10, disk=80),
        Resources(1, 10, disk=30),
    ]
    queue = tuple(named(name, need=need) for name, need in zip("abcd", needs, strict=True))
    assert starts(Snapshot(queue=queue, workers=(FleetWorker(id="w", capacity=capacity),))) == [
        "a",
        "c",
    ]


def test_gpus_must_suit_as_far_as_they_are_known() -> None:
    asked = Gpu(stack="cuda", count=1, driver="12.0", targets=("8.0",))
    for there in (None, CARD, Gpu(stack="cuda", count=2)):
        assert starts(gpu_snapshot(asked, there)) == ["a"]
    assert starts(gpu_snapshot(asked, structs.replace(CARD, driver="11.4"))) == []


def test_prepared_containers_take_what_becomes_free_in_the_order_of_the_queue() -> None:
    asking = {"large": (-2, "", "large"), "small": (-1, "", "small"), "flow": (-1, "", "flow")}
    needs = {"runs": 2, "large": 3, "small": 1}
    there = tuple(Occupant(uuid=uuid, need=Resources(vcpus, 1)) for uuid, vcpus in needs.items())
    apart = (Occupant(uuid="flow", need=Resources(1, 1)),)
    full = FleetWorker(id="w", capacity=Resources(4, 100), occupants=there, workflow_runners=apart)
    assert admitted(full, asking) == ("flow",)
    assert admitted(replace(full, occupants=there[1:]), asking) == ("flow", "large", "small")
    assert admitted(replace(full, occupants=(there[0], there[2])), asking) == ("flow", "small")


def test_what_other_programs_leave_no_room_for_waits_and_blocks_nobody() -> None:
    crowded = replace(worker(capacity=Resources(4, 30)), others=20)
    queue = (entry("large", 9, Resources(1, 40)), entry("small"))
    snapshot = Snapshot(queue=queue, workers=(crowded,))
    assert starts(snapshot) == ["small"]
    status = explain(snapshot)["large"]
    assert status.category is Category.CAPACITY
    assert "while other programs there use 20" in status.sentence
    huge = replace(snapshot, queue=(entry("huge", 9, Resources(1, 60)),))
    status = explain(huge)["huge"]
    assert status.category is Category.TOO_LARGE
    assert "w, has 4 VCPUs and 50 bytes RAM. " in status.sentence
    later = replace(huge, workers=(replace(crowded, capacity=Resources(4, 29), others=21),))
    assert explain(later)["huge"] == status, "the use of other programs is no news"


def test_a_machine_without_internet_for_containers_leaves_those_that_ask_for_it_waiting() -> None:
    lone = replace(worker(), internet_fault="nobody may use /dev/net/tun")
    queue = (replace(entry("online", 9), internet=True), entry("offline"))
    snapshot = Snapshot(queue=queue, workers=(lone,))
    assert starts(snapshot) == ["offline"]
    status = explain(snapshot)["online"]
    assert status.category is Category.TOO_LARGE
    assert status.sentence == (
        "Not for this dispatcher: w is none for it, as nobody may use /dev/net/tun."
    )
    assert starts(replace(snapshot, workers=(replace(lone, internet_fault=""),))) == [
        "online",
        "offline",
    ]


def mixed(*occupants: Occupant, numbers: dict[str, tuple[int, ...]] | None = None) -> FleetWorker:
    """A worker with a large GPU, a small one and one of AMD."""
    return FleetWorker(
        id="w",
        capacity=Resources(8, 80, gpus=3),
        gpu_kinds=(
            Gpu(stack="cuda", count=1, vram=40),
            Gpu(stack="cuda", count=1, vram=16),
            Gpu(stack="rocm", count=1),
        ),
        gpu_numbers=numbers or {},
        occupants=occupants,
    )


def wants(uuid: str, **gpu: Any) -> TrackedContainer:
    asked = Gpu(**{"stack": "cuda", "count": 1, **gpu})
    return replace(entry(uuid, need=Resources(1, 10, gpus=asked.count)), gpu=asked)


def test_gpus_of_several_kinds_are_given_away_by_kind() -> None:
    queue = (wants("a", vram=40), wants("b", vram=40), wants("c", stack="rocm"), wants("d"))
    assert starts(Snapshot(queue=queue, workers=(mixed(),))) == ["a", "c", "d"]


def test_which_gpus_a_container_has_counts_where_it_is_known() -> None:
    running = Occupant(uuid="x", need=Resources(1, 10, gpus=1), gpu=Gpu(stack="cuda", count=1))
    queue = (wants("a", vram=40),)
    assert starts(Snapshot(queue=queue, workers=(mixed(running),))) == []
    small = mixed(running, numbers={"x": (0, 1, 0)})
    assert starts(Snapshot(queue=queue, workers=(small,))) == ["a"]


def test_gpus_are_kept_for_the_head_by_kind() -> None:
    running = Occupant(
        uuid="x", need=Resources(1, 10, gpus=1), gpu=Gpu(stack="cuda", count=1, vram=40)
    )
    queue = (wants("a", count=2), wants("b"), wants("c", stack="rocm"))
    assert starts(Snapshot(queue=queue, workers=(mixed(running),))) == ["c"]
