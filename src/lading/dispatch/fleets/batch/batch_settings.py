"""Settings of the batch fleet."""

from __future__ import annotations

from dataclasses import dataclass

from lading.dispatch.fleets.batch.job_script import JobSite


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """Settings of the batch fleet. Times are seconds.

    `token` is the uuid of the dispatcher's token: jobs are marked with it. `most_waiting`:
    containers handed over that have not started. `array_size`: most containers in one job
    array, 1 for none.
    """

    token: str
    site: JobSite
    poll_period: float = 2.0
    # Seconds between two looks at the shapes of nodes: they change by hand, not by jobs.
    shapes_period: float = 10.0
    # Seconds between two looks at the directory of the completion hooks: one listing of a directory
    # that is nearly always empty.
    hook_period: float = 0.1
    # Seconds between two looks at a batch system that answers slowly or not at all.
    longest_pause: float = 30.0
    # Batch systems sort all waiting jobs in each cycle of their schedulers.
    most_waiting: int = 1000
    array_size: int = 1

    @property
    def patience(self) -> float:
        """Seconds for which a submission waits for a batch system that does not answer."""
        return 4.0 * self.longest_pause

    def pause_after(self, took: float, *, failures: int) -> float:
        """Seconds between two looks: as many as the last one took, twice as many for each failure
        in a row.
        """
        longest = max(self.longest_pause, self.poll_period)
        # Doubling stops at 2 ** 16: by then the longest pause applies, and the power cannot
        # overflow.
        return min(max(self.poll_period, took) * 2.0 ** min(failures, 16), longest)
