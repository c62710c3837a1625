"""Nice values for Slurm."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.scheduling.slurm_nice import MOST, PendingJob, renice, wanted

EARLY, LATE = "2026-01-01T00:00:00.000000000Z", "2026-01-02T00:00:00.000000000Z"


def job(id: str, want: int, *, priority: int = 4_000_000_000, nice: int = 10_000) -> PendingJob:
    return PendingJob(id=id, rank=want, priority=priority, nice=nice)


def test_the_older_goes_first_among_equals_of_users() -> None:
    assert wanted(500, EARLY) > wanted(500, LATE) > wanted(499, EARLY)
    assert wanted(1, LATE) > wanted(0, "not a time")


def test_priorities_of_the_server_are_taken_as_they_are() -> None:
    assert wanted(1001, EARLY) == 1001


def test_the_first_gets_nice_0_and_the_others_follow_at_a_distance() -> None:
    jobs = [job("a", 1), job("b", 3), job("c", 2)]
    assert renice(jobs) == {"b": 0, "c": 10, "a": 20}


def test_what_is_in_order_is_left_alone() -> None:
    jobs = [
        job("a", 3, priority=1000, nice=0),
        job("b", 2, priority=990, nice=9),
        job("c", 1, priority=900, nice=0),
    ]
    assert renice(jobs) == {}
    assert renice([]) == {}


def test_what_is_too_far_behind_comes_nearer() -> None:
    jobs = [job("a", 2, priority=1000, nice=0), job("b", 1, priority=500, nice=600)]
    assert renice(jobs, spread=10) == {"b": 110}


def test_a_nice_value_is_never_negative() -> None:
    jobs = [job("a", 2, priority=1000, nice=0), job("b", 1, priority=1, nice=5)]
    assert renice(jobs) == {"b": 0}


def test_a_nice_value_is_never_larger_than_slurm_takes() -> None:
    jobs = [job("a", 2, priority=10, nice=0), job("b", 1, priority=MOST * 2, nice=0)]
    assert renice(jobs) == {"b": MOST}


def test_no_spread_is_the_usual_one() -> None:
    assert renice([job("a", 2, nice=0), job("b", 1, nice=0)], spread=0) == {"b": 10}


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20_000)), max_size=30), st.integers(2, 50)
)
def test_afterwards_all_are_in_order_and_stay(rows: list[tuple[int, int]], spread: int) -> None:
    jobs = [
        job(f"{at:03d}", want, priority=4_000_000_000 - at - nice, nice=nice)
        for at, (want, nice) in enumerate(rows)
    ]
    after = carried_out(jobs, renice(jobs, spread=spread))
    assert [one.priority for one in after] == sorted((one.priority for one in after), reverse=True)
    assert len({one.priority for one in after}) == len(after)
    assert renice(after, spread=spread) == {}


def carried_out(jobs: list[PendingJob], changes: dict[str, int]) -> list[PendingJob]:
    nices = {one.id: changes.get(one.id, one.nice) for one in jobs}
    done = [
        job(one.id, one.rank, priority=one.best - nices[one.id], nice=nices[one.id]) for one in jobs
    ]
    return sorted(done, key=lambda one: (one.rank, one.id), reverse=True)


@pytest.mark.parametrize("seed", range(3))
def test_a_thousand_jobs_that_drain_take_few_changes(seed: int) -> None:
    chance, changed = Random(seed), 0
    jobs = [
        job(f"{at:04d}", chance.randint(1, 1000), priority=4_294_000_000 - at) for at in range(1000)
    ]
    while jobs:
        changes = renice(jobs)
        changed += len(changes)
        jobs = carried_out(jobs, changes)[chance.randint(1, 20) :]
    assert changed < 40_000
