"""Levels of jobs in batch systems that know a few."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lading.core.scheduling.job_levels import changed_levels, job_level
from lading.core.scheduling.slurm_nice import PendingJob, wanted

CREATED = "2026-01-01T00:00:00Z"


def level(priority: int) -> int:
    return job_level(wanted(priority, CREATED), lowest=-1023, highest=0)


def test_the_level_follows_from_the_priority_of_the_user() -> None:
    assert [level(priority) for priority in (0, 1, 500, 1000)] == [-1023, -1022, -512, 0]
    assert job_level(wanted(1000, CREATED), lowest=0, highest=31) == 31


@given(ranks=st.lists(st.integers(-(1 << 63), 1 << 63), min_size=2))
def test_a_larger_rank_has_no_lower_level(ranks: list[int]) -> None:
    levels = [job_level(rank, lowest=-1023, highest=0) for rank in sorted(ranks)]
    assert levels == sorted(levels)
    assert -1023 <= levels[0] <= levels[-1] <= 0


def test_jobs_that_have_their_level_are_left_alone() -> None:
    jobs = [
        PendingJob(id=str(number), rank=wanted(priority, CREATED), priority=0, nice=nice)
        for number, (priority, nice) in enumerate([(1000, 0), (500, 0), (500, -1), (1, 0)])
    ]
    assert changed_levels(jobs, lowest=-1023, highest=0) == {-512: ["1", "2"], -1022: ["3"]}
