"""Planning: rules as examples, promises as properties."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from lading.core.plan import (
    Category,
    Entry,
    Occupant,
    Plan,
    Snapshot,
    Start,
    Worker,
    apply,
    explain,
    order,
    plan,
)
from lading.core.sizing import Resources, total

SMALL, WHOLE = Resources(1, 10), Resources(4, 40)


def entry(uuid: str, priority: int = 1, need: Resources = SMALL, *, created: str = "", seen: float = 0.0) -> Entry:
    return Entry(uuid=uuid, priority=priority, need=need, created_at=created, seen=seen)


def worker(*occupants: Occupant, id: str = "w", capacity: Resources = WHOLE) -> Worker:
    return Worker(id=id, capacity=capacity, occupants=occupants)


def old(uuid: str, need: Resources = SMALL) -> Occupant:
    return Occupant(uuid=uuid, need=need)


def starts(snapshot: Snapshot) -> list[str]:
    return [one.uuid for one in plan(snapshot).starts]


def test_priority_then_age_decides() -> None:
    queue = (entry("c", created="2"), entry("b", created="1"), entry("a", 9, created="3"))
    assert starts(Snapshot(queue=queue, workers=(worker(capacity=Resources(2, 20)),))) == ["a", "b"]


def test_priorities_are_exact_integers() -> None:
    high = 1000 * 2**50
    queue = (entry("late", high - 1), entry("soon", high))
    assert [one.uuid for one in sorted(queue, key=order)] == ["soon", "late"]


def test_the_fullest_worker_that_fits_is_packed() -> None:
    workers = (worker(id="empty"), worker(old("x", Resources(2, 20)), id="half"))
    assert plan(Snapshot(queue=(entry("a"),), workers=workers)).starts == (Start("a", "half"),)


def test_small_containers_do_not_starve_the_head() -> None:
    head = entry("head", 9, WHOLE, seen=5.0)
    snapshot = Snapshot(queue=(head, entry("small")), workers=(worker(old("x")),))
    assert plan(snapshot) == Plan(head="head", reserved="w")


def test_backfill_inside_what_the_head_leaves() -> None:
    head = entry("head", 9, Resources(3, 30))
    snapshot = Snapshot(queue=(head, entry("one"), entry("two")), workers=(worker(old("x", Resources(2, 20))),))
    assert starts(snapshot) == ["one"]


def test_what_started_since_the_head_was_queued_counts() -> None:
    head = entry("head", 9, Resources(3, 30), seen=5.0)
    since = Occupant(uuid="y", need=SMALL, started=6.0)
    assert starts(Snapshot(queue=(head, entry("one")), workers=(worker(old("x"), since),))) == []


def test_other_workers_are_free_for_all() -> None:
    head = entry("head", 9, WHOLE)
    workers = (worker(old("x"), id="busy"), worker(id="tiny", capacity=Resources(1, 10)))
    assert plan(Snapshot(queue=(head, entry("a")), workers=workers)).starts == (Start("a", "tiny"),)


def test_too_large_and_held_block_nobody() -> None:
    queue = (entry("huge", 9, Resources(99, 1)), entry("held", 8, WHOLE), entry("a"))
    snapshot = Snapshot(queue=queue, workers=(worker(),), held={"held": "Pausing."})
    assert starts(snapshot) == ["a"]


def test_what_occupies_a_worker_is_not_started_again() -> None:
    assert starts(Snapshot(queue=(entry("x"),), workers=(worker(old("x")),))) == []


def test_reasons() -> None:
    queue = (
        entry("huge", 9, Resources(99, 1)), entry("held", 8), entry("head", 7, WHOLE), entry("small"), entry("x"),
        entry("more", 0, Resources(4, 1)),
    )  # fmt: skip
    found = explain(Snapshot(queue=queue, workers=(worker(old("x")),), held={"held": "Pausing after a fault."}))
    assert {uuid: one.category for uuid, one in found.items()} == {
        "x": Category.PREPARING, "huge": Category.TOO_LARGE, "held": Category.HELD, "head": Category.CAPACITY,
        "small": Category.BEHIND_HEAD, "more": Category.CAPACITY,
    }  # fmt: skip
    assert found["head"].sentence == (
        "Waiting in queue at position 1: it needs 4 VCPUs and 40 bytes RAM, of which 3 VCPUs and 30 bytes RAM are free."
    )
    assert "position 2" in found["small"].sentence
    assert "head" in found["small"].sentence
    assert "99 VCPUs and 1 bytes RAM, the largest worker has 4 VCPUs" in found["huge"].sentence
    assert found["held"].sentence == "Pausing after a fault."


def test_without_workers_everything_waits() -> None:
    snapshot = Snapshot(queue=(entry("a"),))
    assert plan(snapshot) == Plan()
    assert explain(snapshot)["a"].category is Category.NO_WORKER


def test_one_of_anything_is_singular() -> None:
    snapshot = Snapshot(queue=(entry("a", need=WHOLE),), workers=(worker(old("x", Resources(3, 1))),))
    assert explain(snapshot)["a"].sentence.endswith("1 VCPU and 39 bytes RAM is free.")


def test_a_started_container_is_explained_as_being_prepared() -> None:
    found = explain(Snapshot(queue=(entry("a"), entry("a")), workers=(worker(),)))
    assert found["a"].sentence == "Preparing to run on w."


def test_what_is_left_goes_to_those_that_can_be_given_more() -> None:
    one = replace(entry("a", 2), growth=Resources(9, 15))
    two = replace(entry("b"), growth=Resources(9, 9))
    decided = plan(Snapshot(queue=(one, two), workers=(worker(),)))
    assert decided.starts == (Start("a", "w", Resources(2, 15)), Start("b", "w", Resources(0, 5)))


needs = st.builds(Resources, st.integers(1, 6), st.integers(1, 60))
growths = st.just(Resources()) | st.builds(Resources, st.integers(0, 6), st.integers(0, 60))
times = st.integers(0, 10).map(float)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    capacities = draw(st.lists(st.builds(Resources, st.integers(1, 8), st.integers(1, 80)), max_size=4))
    workers = []
    for number, capacity in enumerate(capacities):
        occupants: list[Occupant] = []
        for index, (amount, began) in enumerate(draw(st.lists(st.tuples(needs, times), max_size=4))):
            if amount.fits(capacity - total(one.need for one in occupants)):
                occupants.append(Occupant(uuid=f"r{number}.{index}", need=amount, started=began))
        workers.append(worker(*occupants, id=f"w{number}", capacity=capacity))
    rows = draw(st.lists(st.tuples(st.integers(0, 3), needs, times, growths), max_size=8))
    queue = tuple(
        replace(entry(f"q{at}", priority, amount, seen=seen), growth=growth)
        for at, (priority, amount, seen, growth) in enumerate(rows)
    )
    held = {one.uuid: "held" for one in queue if draw(st.booleans()) and draw(st.booleans())}
    return Snapshot(queue=queue, workers=tuple(workers), held=held)


@given(snapshots())
def test_never_oversubscribes_and_never_starts_twice(snapshot: Snapshot) -> None:
    decided = plan(snapshot)
    assert len({one.uuid for one in decided.starts}) == len(decided.starts)
    for one in apply(snapshot, decided, now=10.0).workers:
        assert total(occupant.need for occupant in one.occupants).fits(one.capacity)


@given(snapshots())
def test_a_plan_applied_to_its_own_result_is_empty(snapshot: Snapshot) -> None:
    assert plan(apply(snapshot, plan(snapshot), now=10.0)).starts == ()


@given(snapshots())
def test_equal_needs_start_in_order(snapshot: Snapshot) -> None:
    same = Snapshot(queue=tuple(entry(e.uuid, e.priority) for e in snapshot.queue), workers=snapshot.workers)
    chosen = starts(same)
    assert chosen == [one.uuid for one in sorted(same.queue, key=order)][: len(chosen)]


@given(snapshots())
def test_every_waiting_container_can_say_why(snapshot: Snapshot) -> None:
    found = explain(snapshot)
    assert {one.uuid for one in snapshot.queue} <= found.keys()


@given(snapshots(), st.randoms(use_true_random=False))
def test_the_head_never_starves(snapshot: Snapshot, random: Random) -> None:
    """It starts when all that was there or went before it has ended, though nothing that passed it ever ends."""
    queue = tuple(
        Entry(uuid=one.uuid, priority=one.priority, created_at="", need=one.need, seen=20.0) for one in snapshot.queue
    )
    snapshot = Snapshot(queue=queue, workers=snapshot.workers)
    first = plan(snapshot)
    snapshot = apply(snapshot, first, now=20.0)
    if not first.head:
        return
    head = next(order(one) for one in queue if one.uuid == first.head)
    passed = {one.uuid for one in queue if order(one) > head}
    leaving = [one.uuid for place in snapshot.workers for one in place.occupants if one.uuid not in passed]
    random.shuffle(leaving)
    for moment, uuid in enumerate(leaving):
        arrival = entry(f"new{moment}", -1, Resources(random.randint(1, 6), random.randint(1, 60)), seen=21.0 + moment)
        snapshot = Snapshot(
            queue=(*snapshot.queue, arrival), workers=tuple(_without(w, uuid) for w in snapshot.workers)
        )
        snapshot = apply(snapshot, plan(snapshot), now=21.0 + moment)
    assert first.head not in {one.uuid for one in snapshot.queue}


def _without(one: Worker, uuid: str) -> Worker:
    occupants = tuple(occupant for occupant in one.occupants if occupant.uuid != uuid)
    return Worker(id=one.id, capacity=one.capacity, occupants=occupants)
