"""`python -m tests.simulation.slurm_scenario --seeds N`: 10,000 jobs of a Slurm of which three
commands in ten fail (`batch_drama`). `--replay SEED` plays one seed again, with its log.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from lading.core.errors import LadingError
from lading.dispatch.fleets.batch.job_script import JobSite
from lading.dispatch.fleets.slurm.slurm_commands import Slurm
from lading.dispatch.fleets.slurm.slurm_fleet import SlurmFleet
from lading.dispatch.fleets.slurm.slurm_settings import SlurmSettings
from lading.testing.containers import TOKEN
from lading.testing.simulated_loop import play
from tests.simulation.batch_drama import BatchDrama
from tests.simulation.slurm_faults import Malady, Unreliable
from tests.simulation.slurm_programs import FakeJob, FakeSlurm


class SlurmDrama(BatchDrama):
    """One play of a seed. Of `containers` `slots` at a time run; they come in about `waves`
    waves.
    """

    def __init__(
        self,
        seed: int,
        *,
        containers: int,
        restarts: int = 4,
        twins: float = 0.3,
        slots: int = 1000,
        waves: int = 20,
    ) -> None:
        super().__init__(seed, containers=containers, restarts=restarts, twins=twins, waves=waves)
        self.slurm = FakeSlurm(work=self.supervise, seed=seed, slots=slots)
        site = JobSite(directory="/node", command=("supervisor",), template={})
        arrays = (1, 50)[seed % 2]
        self.settings = SlurmSettings(token=TOKEN, site=site, poll_period=4.0, array_size=arrays)

    def alive(self) -> Sequence[FakeJob]:
        """The jobs that have not ended."""
        return self.slurm.alive()

    def job_count(self) -> int:
        """How many jobs there were."""
        return len(self.slurm.jobs)

    def harm_one(self) -> None:
        """Lose a running job, if there is one, or have it seem lost."""
        running = [job for job in self.slurm.alive() if job.state == "RUNNING"]
        if not running:
            return
        job = self.random.choice(running)
        self.lose(job.uuid)
        match self.random.randrange(3):
            case 0:
                self.slurm.end(job, "NODE_FAIL")
            case 1:
                # What runs there goes on, where Slurm cannot see it.
                self.slurm.requeue(job)
            case _:
                self.slurm.forget(job)

    def bad_programs(self, *, seed: int) -> Unreliable:
        """The programs of one dispatcher."""
        return Unreliable(self.slurm, Malady(), seed=seed, harmed=self.referee.lost)

    def fleet(self, programs: Unreliable) -> SlurmFleet:
        """The fleet of one dispatcher."""
        return SlurmFleet(self.settings, Slurm(programs, timeout=30.0))


def main() -> int:
    """Play; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.slurm_scenario", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--replay", type=int)
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Else the order of sets, and with it the play, is another one in each process.
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "PYTHONHASHSEED": "0"})
    if given.replay is not None:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        return 0 if _tell(given.replay, given.jobs) else 1
    plays = [
        partial(_tell, seed, given.jobs) for seed in range(given.first, given.first + given.seeds)
    ]
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        failed = sum(not one.result() for one in [pool.submit(play) for play in plays])
    sys.stdout.write(f"{len(plays)} plays of Slurm, {failed} failed\n")
    return 1 if failed else 0


def _tell(seed: int, jobs: int) -> bool:
    """Play one, and say how it went; whether it went well."""
    began = time.process_time()
    try:
        one = play(SlurmDrama(seed, containers=jobs).play())
    except (AssertionError, TimeoutError, LadingError) as fault:
        sys.stdout.write(f"Slurm, seed {seed}: {fault!r} (again: --replay {seed} --jobs {jobs})\n")
        return False
    sys.stdout.write(
        f"Slurm, seed {seed}: {jobs} containers over after {one.seconds:.0f} s of its time, "
        f"{one.complete} complete, by {one.jobs} jobs; "
        f"{one.failed} of {one.commands} commands failed, "
        f"{one.lies} answers were not true; "
        f"{one.locks} locks ({one.relocks} again, each for a cause, {one.most} for one at most); "
        f"{time.process_time() - began:.1f} s\n"
    )
    sys.stdout.flush()
    return True


if __name__ == "__main__":
    sys.exit(main())
