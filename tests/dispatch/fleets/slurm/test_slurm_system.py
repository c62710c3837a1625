"""Slurm as a batch system: what it submits, cancels and orders."""

from __future__ import annotations

from signal import Signals

from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.core.scheduling.slurm_nice import PendingJob
from lading.dispatch.fleets.batch.batch_system import JobRequest, job_mark
from lading.dispatch.fleets.batch.job_script import JobSite, Task, write
from lading.dispatch.fleets.slurm.slurm_commands import Slurm
from lading.dispatch.fleets.slurm.slurm_system import SLURM_DIALECT, SlurmSystem
from lading.testing.containers import TOKEN
from tests.simulation.slurm_programs import FakeSlurm

UUIDS = tuple(f"zzzzz-dz642-{number:015d}" for number in range(2))


def request(*uuids: str) -> JobRequest:
    site = JobSite(directory="/node", command=("supervisor",), template={})
    return JobRequest(
        uuids=uuids,
        container=TrackedContainer(uuid=uuids[0], need=Resources(1, MIB)),
        mark=job_mark(TOKEN, uuids),
        rank=1,
        script=write(site, [Task(uuid, "secret") for uuid in uuids], SLURM_DIALECT),
    )


async def test_each_task_of_an_array_has_an_id() -> None:
    programs = FakeSlurm()
    system = SlurmSystem(Slurm(programs, timeout=1.0))
    assert await system.submit(request(UUIDS[0])) == ["1"]
    assert await system.submit(request(*UUIDS)) == ["2_0", "2_1"]
    assert "--array=0-1" in programs.calls[-1]
    rows = await system.poll()
    assert [(row.job, row.array) for row in rows] == [("1", "1"), ("2_0", "2"), ("2_1", "2")]


async def test_kill_cancels_and_nothing_is_ordered_without_need() -> None:
    programs = FakeSlurm(slots=0)
    system = SlurmSystem(Slurm(programs, timeout=1.0))
    (job,) = await system.submit(request(UUIDS[0]))
    await system.reorder([])
    await system.reorder([PendingJob(id=job, rank=1, priority=9, nice=10_000)])
    await system.cancel([job], Signals.SIGKILL)
    assert [call[0] for call in programs.calls] == ["sbatch", "scontrol", "scancel"]
    assert await system.explain([job]) == {}
