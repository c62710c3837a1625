"""What the Slurm fleet adds to bare `sbatch`: the same jobs, in turn, on a private cluster on this
machine.

The floor is `sbatch --wrap true`, as many at a time as the fleet submits; beside it stands a loop
of them, one after another, as a script would do it. The fleet, without job arrays, gets as many
containers at once whose supervisor is `true`: what is measured is submission, the job script with
its completion hook, the looks at the queue and the nice values, not the supervisor. Both are
watched alike, from outside, until Slurm has no job any more. Rounds alternate, so that other work
on the machine hits both.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench.figures import Figure, absent, throughput
from lading.core.containers.container import ContainerState
from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleet import StartRequest
from lading.dispatch.fleets.batch.job_script import JobSite
from lading.dispatch.fleets.batch.programs import run_program
from lading.dispatch.fleets.slurm.sbatch_arguments import Templates
from lading.dispatch.fleets.slurm.slurm_commands import Slurm
from lading.dispatch.fleets.slurm.slurm_fleet import SlurmFleet
from lading.dispatch.fleets.slurm.slurm_settings import SlurmSettings
from tests.system.slurm_cluster import SlurmCluster, running_slurm

MOST_ADDED = 0.15
_NAME = "sbatch alone"
_TOKEN = "bench-gj3su-000000000000000"
_LIMIT = 300.0
_LOOK = 0.1
_AT_ONCE = 3


def measure(*, jobs: int, rounds: int) -> list[Figure]:
    """Jobs a second of both, and how much longer the fleet takes."""
    if (
        os.geteuid() != 0
        or shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin") is None
    ):
        return [absent(_NAME, "needs root, and Slurm's daemons")]
    loop = bare = fleet = 0.0
    with (
        tempfile.TemporaryDirectory(prefix="lading-bench-", ignore_cleanup_errors=True) as folder,
        running_slurm(Path(folder) / "slurm", nodes=2) as slurm,
        _reaching(slurm),
    ):
        _bare(slurm, 5)
        for number in range(rounds):
            loop += _bare(slurm, jobs)
            bare += _bare(slurm, jobs, at_once=_AT_ONCE)
            fleet += asyncio.run(_through_fleet(slurm, Path(folder), jobs, number))
    added = fleet / bare - 1
    return [
        throughput(_NAME, jobs * rounds, loop, note="sbatch --wrap true, one after another"),
        throughput(
            f"{_NAME}, {_AT_ONCE} at a time",
            jobs * rounds,
            bare,
            note="as many as the fleet submits",
        ),
        throughput("the same jobs by the Slurm fleet", jobs * rounds, fleet),
        Figure(
            name="added by the Slurm fleet",
            unit="%",
            count=jobs * rounds,
            rate=added * 100,
            target=f"<= {MOST_ADDED * 100:g} %",
            met=added <= MOST_ADDED,
            note=f"to sbatch alone, {_AT_ONCE} at a time; "
            f"to the loop {(fleet / loop - 1) * 100:.0f} %",
        ),
    ]


class BareSlurm:
    """Bare `sbatch` on a private cluster that is tuned for many small jobs."""

    def __init__(self, slurm: SlurmCluster, work: Path) -> None:
        self._slurm, self._out = slurm, work / "out"

    def burst(self, count: int) -> float:
        """Seconds of `sbatch --wrap true` in a loop, until there is no job any more."""
        return _bare(self._slurm, count)

    def singles(self, count: int) -> list[float]:
        """Seconds from sbatch to the user code of a job, one at a time. Raises TimeoutError."""
        return [self._single() for _ in range(count)]

    def _single(self) -> float:
        began = time.time()
        _submit(self._slurm, "date +%s%N", output=self._out)
        while not (self._out.exists() and self._out.read_text().endswith("\n")):
            if time.time() - began > _LIMIT:
                raise TimeoutError("sbatch: the job has not run")
            time.sleep(0.002)
        ran = int(self._out.read_text()) / 1e9
        self._out.unlink()
        while self._slurm.jobs():
            time.sleep(_LOOK)
        return ran - began


@contextmanager
def bare_slurm() -> Iterator[BareSlurm]:
    """A private cluster. Raises RuntimeError where there can be none."""
    if (
        os.geteuid() != 0
        or shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin") is None
    ):
        raise RuntimeError("needs root, and Slurm's daemons")
    with (
        tempfile.TemporaryDirectory(prefix="lading-bench-", ignore_cleanup_errors=True) as folder,
        running_slurm(Path(folder) / "slurm", nodes=2) as slurm,
    ):
        _bare(slurm, 5)
        yield BareSlurm(slurm, Path(folder))


@contextmanager
def _reaching(slurm: SlurmCluster) -> Iterator[None]:
    """The programs of this process talk to that cluster."""
    before = {name: os.environ.get(name) for name in slurm.environment}
    os.environ.update(slurm.environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _bare(slurm: SlurmCluster, count: int, *, at_once: int = 1) -> float:
    def submit(_: int) -> None:
        _submit(slurm, "true", output=Path("/dev/null"))

    began = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        for _ in pool.map(submit, range(count)):
            pass
    while slurm.jobs():
        time.sleep(_LOOK)
    return time.monotonic() - began


def _submit(slurm: SlurmCluster, script: str, *, output: Path) -> None:
    slurm.run("sbatch", "--mem=64", "--cpus-per-task=1", f"--output={output}", "--wrap", script)


async def _through_fleet(slurm: SlurmCluster, folder: Path, count: int, number: int) -> float:
    hooks = folder / f"hooks{number}"
    await asyncio.to_thread(hooks.mkdir)
    site = JobSite(directory=str(folder / "node"), command=("true",), template={}, hooks=str(hooks))
    settings = SlurmSettings(
        token=_TOKEN, site=site, templates=Templates(), poll_period=1.0, most_waiting=count
    )
    uuids = [f"bench-dz642-{number:05d}{index:010d}" for index in range(count)]
    async with (
        asyncio.timeout(_LIMIT),
        SlurmFleet(settings, Slurm(run_program, timeout=60.0)) as fleet,
    ):
        fleet.set_lookup(lambda uuid: TrackedContainer(uuid=uuid, state=ContainerState.COMPLETE))
        while not fleet.view().workers:
            await fleet.changed()
        began = time.monotonic()
        async with asyncio.TaskGroup() as starts:
            for uuid in uuids:
                starts.create_task(
                    fleet.start(
                        StartRequest(
                            uuid=uuid,
                            worker="Slurm",
                            token="none",
                            container=TrackedContainer(uuid=uuid, need=Resources(1, 64 * MIB)),
                        )
                    )
                )
        while await asyncio.to_thread(slurm.jobs):
            await asyncio.sleep(_LOOK)
        seconds = time.monotonic() - began
        while any(process.alive for process in fleet.view().processes.values()):
            await fleet.changed()
    return seconds
