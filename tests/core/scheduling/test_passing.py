"""Backfill in time: who may start on room that is kept for another one."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from lading.core.resources import Resources
from lading.core.scheduling import passing
from lading.core.scheduling.batch_explanation import explain
from lading.core.scheduling.batch_planner import apply, plan
from lading.core.scheduling.expected_times import expected_end
from lading.core.scheduling.passing import Head, admitted, outlook, run_bounds
from lading.core.scheduling.planning import (
    Category,
    FleetWorker,
    KeptRoom,
    Occupant,
    Snapshot,
    TrackedContainer,
)

ONE, TWO = Resources(1, 10), Resources(2, 20)


def waiting(
    uuid: str, priority: int = 1, need: Resources = ONE, *, run_time: int = 0, limit: int = 0
) -> TrackedContainer:
    return TrackedContainer(
        uuid=uuid, priority=priority, need=need, run_time=run_time, max_run_time=limit, seen_at=5.0
    )


HEAD = waiting("head", 9, TWO)


def runs(uuid: str, *, started: float = 0.0, ends: float = inf, priority: int = 10) -> Occupant:
    place = waiting(uuid, priority).place
    return Occupant(uuid=uuid, need=ONE, started=started, ends=ends, queue_place=place)


def seen(*queue: TrackedContainer, there: tuple[Occupant, ...], now: float = 5.0) -> Snapshot:
    workers = (FleetWorker(id="w", capacity=TWO, occupants=there),)
    return Snapshot(queue=(HEAD, *queue), workers=workers, now=now)


def starts(snapshot: Snapshot) -> list[str]:
    return [one.uuid for one in plan(snapshot).starts]


@pytest.mark.parametrize(
    ("container", "bounds"),
    [
        (waiting("a"), (inf, inf)),
        (waiting("a", run_time=30), (60.0, inf)),
        (waiting("a", limit=40), (40.0, 40.0)),
        (waiting("a", run_time=30, limit=40), (40.0, 40.0)),
    ],
)
def test_how_long_a_container_runs(
    container: TrackedContainer, bounds: tuple[float, float]
) -> None:
    assert run_bounds(container) == bounds


def test_when_a_container_is_expected_to_end() -> None:
    assert expected_end(waiting("a"), began=5.0, now=10.0) == inf
    assert expected_end(waiting("a", run_time=30), began=-inf, now=10.0) == inf
    assert expected_end(waiting("a", run_time=30), began=5.0, now=10.0) == 35.0
    assert expected_end(waiting("a", limit=20), began=5.0, now=10.0) == 25.0
    # It takes longer than it was expected to.
    assert expected_end(waiting("a", run_time=30), began=0.0, now=50.0) == 60.0


def test_one_that_ends_before_the_head_can_start_passes_it() -> None:
    there = (runs("old", ends=100.0),)
    for short in (waiting("short", run_time=40), waiting("short", limit=95)):
        assert starts(seen(short, there=there)) == ["short"]
    for long in (waiting("long", run_time=50), waiting("long", limit=96), waiting("unknown")):
        assert starts(seen(long, there=there)) == []
    # When the head starts is not known.
    assert starts(seen(waiting("short", run_time=1), there=(runs("old"),))) == []


def test_those_of_unknown_run_time_pass_within_the_limit() -> None:
    snapshot = replace(seen(waiting("small"), there=(runs("old"),)), passing=600.0)
    assert starts(snapshot) == ["small"]
    kept = {"head": KeptRoom("w", since=5.0)}
    assert starts(replace(snapshot, kept_rooms=kept, now=604.0)) == ["small"]
    assert starts(replace(snapshot, kept_rooms=kept, now=605.0)) == []


def test_several_pass_in_one_plan() -> None:
    four = FleetWorker(id="w", capacity=Resources(4, 40), occupants=(runs("old"),))
    head = replace(HEAD, need=Resources(4, 40))
    snapshot = replace(seen(waiting("a"), waiting("b"), there=()), passing=600.0, workers=(four,))
    snapshot = replace(snapshot, queue=(head, *snapshot.queue[1:]))
    assert starts(snapshot) == ["a", "b"]


def test_no_further_one_passes_a_head_that_waits_for_those_that_passed_it() -> None:
    passed = runs("passed", started=6.0, priority=1)
    snapshot = replace(seen(waiting("small"), there=(passed,)), passing=600.0)
    assert starts(snapshot) == []
    # One that ends before it still does no harm.
    there = (replace(passed, ends=100.0),)
    short, limited = waiting("short", run_time=20), waiting("short2", limit=90)
    assert starts(replace(seen(short, there=there), passing=600.0)) == ["short"]
    # After the limit only one that is ended in time: an expectation may be wrong again and again.
    assert starts(seen(short, limited, there=there)) == ["short2"]


@pytest.mark.parametrize(
    ("run_time", "limit", "latest"),
    [
        # The one that passed it last began while the one before it ran.
        (0, 0, 60 + 60),
        # Each takes far longer than its tool usually does: the time says nothing about the end.
        (1, 0, 600 + 60 + 60),
        # One that is ended at its limit takes no longer than that.
        (1, 60, 600 + 60 + 60),
    ],
)
def test_a_head_of_two_processors_starts_in_the_end(run_time: int, limit: int, latest: int) -> None:
    """A stream of small ones, each of which runs for 60 s, never keeps it from starting."""
    snapshot = replace(seen(there=(runs("old", started=0.0),)), passing=600.0)
    expectations = {
        f"new{second}": waiting(f"new{second}", run_time=run_time, limit=limit)
        for second in range(5, 2000, 5)
    }
    for second in range(5, 2000, 5):
        occupants = tuple(
            replace(one, ends=expected_end(expectations[one.uuid], began=one.started, now=second))
            if one.uuid in expectations
            else one
            for one in snapshot.workers[0].occupants
            if one.started + 60 > second
        )
        snapshot = replace(
            snapshot,
            queue=(*snapshot.queue, expectations[f"new{second}"]),
            workers=(replace(snapshot.workers[0], occupants=occupants),),
            now=float(second),
        )
        decided = plan(snapshot)
        if "head" in {start.uuid for start in decided.starts}:
            break
        snapshot = apply(snapshot, decided, now=float(second))
    else:
        raise AssertionError("it starved")
    assert second <= latest


def test_the_room_stays_kept_where_others_have_passed() -> None:
    there = (runs("old", ends=100.0), runs("passed", started=6.0, ends=90.0, priority=1))
    other = FleetWorker(id="v", capacity=TWO, occupants=(runs("a"), runs("b")))
    snapshot = replace(seen(there=there), kept_rooms={"head": KeptRoom("w", since=5.0)})
    workers = (*snapshot.workers, other, FleetWorker(id="x", capacity=ONE))
    (kept,) = plan(replace(snapshot, workers=workers)).reservations
    assert kept.worker == "w"


def test_a_plan_keeps_since_when_there_is_room_for_the_head() -> None:
    snapshot = seen(there=(runs("old"),))
    snapshot = apply(snapshot, plan(snapshot), now=5.0)
    later = replace(snapshot, now=50.0)
    assert apply(later, plan(later), now=50.0).kept_rooms == {"head": KeptRoom("w", since=5.0)}
    full = replace(later, workers=(replace(later.workers[0], occupants=()),))
    assert apply(full, plan(full), now=50.0).kept_rooms == {}


def test_it_is_told_how_long_others_may_pass() -> None:
    snapshot = replace(seen(waiting("small"), there=(runs("old"),)), passing=600.0, now=700.0)
    snapshot = replace(snapshot, kept_rooms={"head": KeptRoom("w", since=5.0)})
    found = explain(snapshot)
    assert "and for 10 min any that fits now." in found["head"].sentence
    assert found["small"].category is Category.BEHIND_HEAD
    assert "within 10 min from when room is kept" in found["small"].sentence
    found = explain(replace(snapshot, passing=0.0))
    assert found["small"].sentence.endswith("which needs more and comes first.")
    assert "Room is kept" not in found["head"].sentence


def test_prepared_ones_pass_a_prepared_one_within_the_limit() -> None:
    large = Occupant(uuid="large", need=TWO, started=10.0, asks=True)
    small = Occupant(uuid="small", need=ONE, started=11.0, asks=True)
    worker = FleetWorker(id="w", capacity=TWO, occupants=(runs("old"), large, small))
    asking = {"large": HEAD.place, "small": waiting("small").place}
    assert admitted(worker, asking, now=20.0) == ()
    assert admitted(worker, asking, now=20.0, limit=600.0) == ("small",)
    assert admitted(worker, asking, now=610.0, limit=600.0) == ()
    known = replace(worker, occupants=(runs("old", ends=100.0), large, replace(small, ends=50.0)))
    assert admitted(known, asking, now=20.0) == ("small",)


def test_one_that_is_prepared_and_has_no_room_is_a_head_too() -> None:
    large = Occupant(uuid="large", need=TWO, started=10.0, queue_place=HEAD.place, asks=True)
    worker = FleetWorker(id="w", capacity=TWO, occupants=(runs("old"), large))
    queue = (waiting("small"),)
    snapshot = Snapshot(queue=queue, workers=(worker,), now=20.0, passing=600.0)
    assert starts(snapshot) == ["small"]
    assert starts(replace(snapshot, now=611.0)) == []
    assert starts(replace(snapshot, passing=0.0)) == []
    let_in = replace(snapshot, workers=(replace(worker, occupants=(large,)),))
    assert starts(let_in) == []


def test_a_head_of_unknown_place_comes_first() -> None:
    head = Head.asking(Occupant(uuid="x", need=TWO, started=3.0, asks=True))
    assert head.queue_place < HEAD.place or head.queue_place[0] == 0
    found = outlook(head, capacity=TWO, occupants=(runs("old", ends=9.0),))
    assert (found.starts_at, found.is_blocked) == (9.0, True)
    assert passing.may_pass((4.0, inf), found, now=5.0, until=0.0)
    there = (runs("old", ends=9.0), runs("other", ends=12.0))
    assert head.starts_at(TWO, there) == 12.0
    assert head.starts_at(TWO, (*there, runs("passed"))) == inf
    assert head.starts_at(TWO, ()) == inf
