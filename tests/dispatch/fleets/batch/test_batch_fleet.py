"""The batch fleet on a batch system that is told what to answer; that of Slurm has more cases
(tests/dispatch/fleets/slurm/test_slurm_fleet.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from signal import Signals

import pytest

from lading.core.errors import Failure, Unavailable
from lading.core.resources import GIB, MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.core.scheduling.slurm_nice import PendingJob
from lading.dispatch.fleet import StartRequest
from lading.dispatch.fleets.batch.batch_fleet import BatchFleet
from lading.dispatch.fleets.batch.batch_settings import BatchSettings
from lading.dispatch.fleets.batch.batch_system import JobPhase, JobRequest, NodeShape, QueueRow
from lading.dispatch.fleets.batch.job_script import JobSite, ScriptDialect
from lading.dispatch.fleets.batch.programs import JobQuotaReached
from lading.testing.containers import TOKEN

ONE, TWO = (f"zzzzz-dz642-{number:015d}" for number in range(2))


@dataclass(slots=True)
class ToldSystem:
    """A batch system with these answers."""

    rows: list[QueueRow] = field(default_factory=list)
    accounts: list[QueueRow] = field(default_factory=list)
    quota: int = 100
    reasons: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    accounting_delay: float = 0.0
    most_asked: int = 100
    name: str = "Told"
    dialect: ScriptDialect = ScriptDialect(
        system="Told", section="Batch", restarted="false", job="$JOB"
    )

    async def submit(self, request: JobRequest) -> list[str]:
        if len(self.rows) >= self.quota:
            raise JobQuotaReached("too many jobs")
        self.rows.append(
            QueueRow(
                job=str(len(self.rows) + 1),
                mark=request.mark,
                phase=JobPhase.WAITING,
                state="Q",
            )
        )
        return [self.rows[-1].job]

    async def poll(self) -> list[QueueRow]:
        return list(self.rows)

    async def ended(self, jobs: Sequence[str]) -> list[QueueRow]:
        self.asked.append(tuple(jobs))
        return [row for row in self.accounts if row.job in jobs]

    async def cancel(self, jobs: Sequence[str], number: Signals) -> None:
        self.cancelled += jobs
        self.rows = [row for row in self.rows if row.job not in jobs]

    async def reorder(self, jobs: Sequence[PendingJob]) -> None:
        assert jobs

    async def explain(self, jobs: Sequence[str]) -> Mapping[str, str]:
        return {job: self.reasons[job] for job in jobs if job in self.reasons}

    async def shapes(self) -> tuple[NodeShape, ...]:
        capacity = Resources(4, GIB, GIB)
        return (
            NodeShape(
                system=self.name, capacity=capacity, partitions=frozenset({"all"}), default=True
            ),
        )


@asynccontextmanager
async def fleet_of(system: ToldSystem, *, longest_pause: float = 0.02) -> AsyncIterator[BatchFleet]:
    site = JobSite(directory="/node", command=("supervisor",), template={})
    settings = BatchSettings(
        token=TOKEN, site=site, poll_period=0.001, shapes_period=0.001, longest_pause=longest_pause
    )
    async with asyncio.timeout(60), BatchFleet(settings, system) as fleet:
        await until(fleet, lambda: fleet.view().is_known)
        yield fleet


async def until(fleet: BatchFleet, condition: Callable[[], bool]) -> None:
    while not condition():
        await fleet.changed()


def order(uuid: str) -> StartRequest:
    container = TrackedContainer(uuid=uuid, need=Resources(1, MIB), priority=1)
    return StartRequest(uuid=uuid, worker="Told", token="secret", container=container)


def _ended(row: QueueRow) -> QueueRow:
    return QueueRow(
        job=row.job,
        mark=row.mark,
        phase=JobPhase.ENDED,
        state="F",
        end="it was preempted",
        failure=Failure.PREEMPTED,
    )


async def test_a_job_that_late_accounts_do_not_know_yet_is_alive() -> None:
    system = ToldSystem(accounting_delay=3600.0)
    async with fleet_of(system) as fleet:
        await fleet.start(order(ONE))
        (row,) = system.rows
        system.rows.clear()
        await until(fleet, lambda: len(system.asked) > 3)
        assert fleet.view().processes[ONE].alive
        system.accounts.append(_ended(row))
        await until(fleet, lambda: not fleet.view().processes[ONE].alive)
        process = fleet.view().processes[ONE]
        assert (process.failure, process.fate) == (
            Failure.PREEMPTED,
            "Told job 1: it was preempted (F).",
        )


async def test_a_job_that_accounts_never_know_ends_after_their_delay() -> None:
    system = ToldSystem(accounting_delay=0.05)
    async with fleet_of(system) as fleet:
        await fleet.start(order(ONE))
        system.rows.clear()
        await until(fleet, lambda: not fleet.view().processes[ONE].alive)
        assert len(system.asked) > 1


async def test_few_jobs_are_asked_for_at_a_time() -> None:
    system = ToldSystem(most_asked=1)
    async with fleet_of(system) as fleet:
        for uuid in (ONE, TWO):
            await fleet.start(order(uuid))
        system.rows.clear()
        await until(
            fleet, lambda: not any(process.alive for process in fleet.view().processes.values())
        )
        assert {len(jobs) for jobs in system.asked} == {1}


async def test_the_fate_of_another_job_with_the_same_id_is_not_that_of_a_container() -> None:
    system = ToldSystem(accounting_delay=0.05)
    async with fleet_of(system) as fleet:
        await fleet.start(order(ONE))
        (row,) = system.rows
        system.accounts.append(_ended(replace(row, mark="somebody else's")))
        system.rows.clear()
        await until(fleet, lambda: not fleet.view().processes[ONE].alive)
        assert fleet.view().processes[ONE].fate == ""


async def test_at_the_quota_a_start_waits_for_the_end_of_a_job() -> None:
    system = ToldSystem(quota=1)
    async with fleet_of(system, longest_pause=60.0) as fleet:
        await fleet.start(order(ONE))
        start = asyncio.create_task(fleet.start(order(TWO)))
        await until(fleet, lambda: fleet.view().most == 0)
        assert fleet.view().workers
        system.rows.clear()
        await start
        assert fleet.view().processes[TWO].alive


async def test_a_quota_that_lasts_gives_the_container_back() -> None:
    async with fleet_of(ToldSystem(quota=0)) as fleet:
        with pytest.raises(Unavailable, match="takes no job"):
            await fleet.start(order(ONE))
        assert fleet.view().processes == {}


async def test_a_job_that_never_starts_has_ended_and_is_cancelled() -> None:
    system = ToldSystem()
    async with fleet_of(system) as fleet:
        await fleet.start(order(ONE))
        system.rows = [replace(system.rows[0], is_stuck=True, end="it is in error state")]
        await until(fleet, lambda: not fleet.view().processes[ONE].alive)
        assert fleet.view().processes[ONE].fate == "Told job 1: it is in error state (Q)."
        await fleet.clean(ONE)
    assert system.cancelled == ["1"]


async def test_reasons_are_asked_for_where_the_queue_has_none() -> None:
    system = ToldSystem(reasons={"1": "no queue has so many slots"})
    async with fleet_of(system) as fleet:
        await fleet.start(order(ONE))
        await until(fleet, lambda: "slots" in fleet.view().processes[ONE].note)
        note = fleet.view().processes[ONE].note
        assert note == "Waiting in Told as job 1 (no queue has so many slots)."
