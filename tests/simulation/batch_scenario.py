"""`python -m tests.simulation.batch_scenario --seeds N --jobs 1000`: jobs through each batch system
of which three commands in ten fail (`batch_drama`), with late accounts and ids that are used again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from lading.config.batch import BatchSite
from lading.core.errors import LadingError
from lading.dispatch.fleets.batch.batch_fleet import BatchFleet
from lading.dispatch.fleets.batch.batch_settings import BatchSettings
from lading.dispatch.fleets.batch.job_script import JobSite
from lading.dispatch.fleets.batch_adapters.opening import batch_system
from lading.testing.containers import TOKEN
from lading.testing.played_scheduler import (
    OWN_USER,
    Mouth,
    PlayedEnd,
    PlayedJob,
    PlayedScheduler,
    SchedulerMalice,
)
from lading.testing.simulated_loop import play
from tests.simulation.batch_drama import BatchDrama
from tests.simulation.gridengine_mouth import GridEngineMouth
from tests.simulation.pbs_mouth import PbsMouth
from tests.simulation.slurm_faults import Malady, Unreliable

MOUTHS: Final[Mapping[str, Callable[[PlayedScheduler], Mouth]]] = MappingProxyType(
    {"gridengine": GridEngineMouth, "pbs": PbsMouth}
)
"""The programs of each batch system."""
_LAG = 20.0


class AdapterDrama(BatchDrama):
    """One play of a seed through the batch system of that name."""

    def __init__(
        self,
        name: str,
        seed: int,
        *,
        containers: int,
        restarts: int = 4,
        twins: float = 0.3,
        waves: int = 20,
    ) -> None:
        super().__init__(seed, containers=containers, restarts=restarts, twins=twins, waves=waves)
        malice = SchedulerMalice(accounting_lag=_LAG, skew=-3600.0)
        self.scheduler = PlayedScheduler(work=self.supervise, seed=seed, malice=malice)
        self._name = name
        self._mouth = MOUTHS[name](self.scheduler)
        self._settings = BatchSettings(
            token=TOKEN,
            site=JobSite(directory="/node", command=("supervisor",), template={}),
            poll_period=4.0,
        )

    def alive(self) -> Sequence[PlayedJob]:
        """The jobs that have not ended."""
        return self.scheduler.alive()

    def job_count(self) -> int:
        """How many jobs there were."""
        return len(self.scheduler.jobs)

    def harm_one(self) -> None:
        """Lose a running job, if there is one, or have it seem lost."""
        running = [job for job in self.scheduler.alive() if job.is_started]
        if not running:
            return
        job = self.random.choice(running)
        self.lose(job.uuid)
        match self.random.randrange(4):
            case 0:
                self.scheduler.finish(job, PlayedEnd.NODE_LOST)
            case 1:
                self.scheduler.finish(job, PlayedEnd.PREEMPTED)
            case 2:
                # Its run goes on, where the controller cannot see it.
                self.scheduler.requeue(job)
            case _:
                self.scheduler.forget(job)

    def bad_programs(self, *, seed: int) -> Unreliable:
        """The programs of one dispatcher."""
        return Unreliable(
            self._mouth, Malady(), seed=seed, harmed=self.referee.lost, looks=self._mouth.looks
        )

    def fleet(self, programs: Unreliable) -> BatchFleet:
        """The fleet of one dispatcher."""
        site = BatchSite(System=self._name, CommandTimeout=30.0, AccountingDelay=2 * _LAG)
        return BatchFleet(self._settings, batch_system(site, run=programs, user=OWN_USER))


def main() -> int:
    """Play; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.batch_scenario", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("systems", nargs="*", default=list(MOUTHS))
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Else the order of sets, and with it the play, is another one in each process.
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "PYTHONHASHSEED": "0"})
    seeds = range(options.first, options.first + options.seeds)
    plays = [(name, seed) for name in options.systems for seed in seeds]
    failed = sum(not _tell(name, seed, options.jobs) for name, seed in plays)
    sys.stdout.write(f"{len(plays)} plays of batch systems, {failed} failed\n")
    return 1 if failed else 0


def _tell(name: str, seed: int, jobs: int) -> bool:
    """Play one, and say how it went; whether it went well."""
    began = time.process_time()
    drama = AdapterDrama(name, seed, containers=jobs)
    try:
        outcome = play(drama.play())
    except (AssertionError, TimeoutError, LadingError) as fault:
        sys.stdout.write(f"{name}, seed {seed}: {fault!r}\n")
        return False
    twice = sum(times > 1 for times in drama.ran.values())
    sys.stdout.write(
        f"{name}, seed {seed}: {jobs} containers, {outcome.complete} complete, {twice} ran twice, "
        f"0 lost, by {outcome.jobs} jobs; {outcome.failed} of {outcome.commands} commands failed, "
        f"{outcome.lies} answers were not true; {time.process_time() - began:.1f} s\n"
    )
    sys.stdout.flush()
    return True


if __name__ == "__main__":
    sys.exit(main())
