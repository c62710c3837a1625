"""Priorities of jobs in batch systems that know a few levels.

The level follows from the user's priority alone, so it changes only when that does. Jobs of one
level run in the order of their submission, which is that of their containers. Source:
docs/spec/dispatch, section Batch fleet.
"""

from __future__ import annotations

from collections.abc import Iterable

from lading.core.scheduling.slurm_nice import BUCKET, PendingJob

_HIGHEST_PRIORITY = 1000


def job_level(rank: int, *, lowest: int, highest: int) -> int:
    """The level, from `lowest` to `highest`, for the rank of a container (`slurm_nice.wanted`)."""
    # The age of the container was subtracted from the rank.
    priority = -(-rank >> BUCKET)
    bounded = min(max(priority, 0), _HIGHEST_PRIORITY)
    return lowest + bounded * (highest - lowest) // _HIGHEST_PRIORITY


def changed_levels(
    jobs: Iterable[PendingJob], *, lowest: int, highest: int
) -> dict[int, list[str]]:
    """The ids of the waiting jobs that need another level (`nice` is the present one), by it."""
    changes: dict[int, list[str]] = {}
    for job in jobs:
        level = job_level(job.rank, lowest=lowest, highest=highest)
        if level != job.nice:
            changes.setdefault(level, []).append(job.id)
    return changes
