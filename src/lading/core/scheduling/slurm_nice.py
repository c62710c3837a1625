"""Translation of priorities for Slurm: a nice value for each waiting job.

Slurm runs the job of the highest priority first, and lowers a job's own priority by its nice value;
a user can only lower it. So the wanted order is made by lowering the later jobs: the first gets 0,
each next one is left alone while it is behind the one before it already and not too far, else is
put `spread` behind it. The gaps leave room for jobs that come between, so that most changes touch
few jobs. Source: docs/spec/dispatch, section Slurm fleet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from lading.core.quantities import parse_time

INITIAL = 10_000
"""The nice value of a new job, so that others can come before it."""
MOST = 2_147_483_645
"""The largest nice value that Slurm takes."""
DEFAULT_SPREAD = 10
"""The gap between two jobs leaves room for later ones in between (`Slurm.PrioritySpread`)."""
BUCKET = 50
"""Bits by which wanted values are shifted to compare them coarsely: the user's priority remains, so
that containers of one priority and any age share a job array.
"""
# Priorities up to this are a user's; larger ones have the age in them already.
_USER_PRIORITIES = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingJob:
    """A waiting job: its wanted rank (larger is sooner), and Slurm's priority for it at its
    present nice value.
    """

    id: str
    rank: int
    priority: int
    nice: int

    @property
    def best(self) -> int:
        """Priority of the job at nice 0."""
        return self.priority + self.nice


def wanted(priority: int, created_at: str) -> int:
    """Urgency of a container as one integer; among equal priorities the older goes first."""
    if priority > _USER_PRIORITIES:
        return priority
    # The age takes the bits below BUCKET: nanoseconds since 1970 have 61 bits, of which 47 stay.
    return (priority << BUCKET) - (_nanoseconds(created_at) >> 14)


def renice(jobs: Iterable[PendingJob], *, spread: int = DEFAULT_SPREAD) -> dict[str, int]:
    """The nice values to change, by job id, so that the jobs run in the wanted order; of equals the
    later id first.
    """
    step = spread if spread > 0 else DEFAULT_SPREAD
    changes: dict[str, int] = {}
    position: int | None = None
    for job in sorted(jobs, key=lambda job: (job.rank, job.id), reverse=True):
        # A job not further behind than ten gaps is left where it is: else the end of one job would
        # move all that follow.
        if position is not None and 0 <= position - job.priority < (step - 1) * 10:
            position = job.priority - 1
            continue
        # Slurm lowers by at most MOST; and a job cannot be raised above its own priority.
        goal = (
            job.best
            if position is None
            else max(min(job.best, position - (step - 1)), job.best - MOST)
        )
        if goal != job.priority:
            changes[job.id] = job.best - goal
        position = goal - 1
    return changes


def _nanoseconds(created_at: str) -> int:
    try:
        passed = parse_time(created_at) - _EPOCH
    except ValueError:
        # Without a time it counts as the oldest: it is not put behind all others.
        return 0
    return (passed.days * 86400 + passed.seconds) * 10**9 + passed.microseconds * 1000
