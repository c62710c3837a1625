"""Conformance suite of batch systems (`lading.dispatch.fleets.batch.batch_system.BatchSystem`).

A test module subclasses `BatchSystemSuite` and gives the fixtures `scheduler`, a played one, and
`system`, the adapter over the programs of its batch system. The cases that take time run by a clock
of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from signal import Signals

import pytest

from lading.core.errors import Failure, Unavailable
from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.core.scheduling.slurm_nice import PendingJob, wanted
from lading.dispatch.fleet import FleetView, StartRequest
from lading.dispatch.fleets.batch.batch_fleet import BatchFleet
from lading.dispatch.fleets.batch.batch_settings import BatchSettings
from lading.dispatch.fleets.batch.batch_system import (
    BatchSystem,
    JobPhase,
    JobRequest,
    job_mark,
    owner,
)
from lading.dispatch.fleets.batch.job_script import JobSite, Task, write
from lading.dispatch.fleets.batch.programs import JobRefused, OutcomeUnknown
from lading.testing.containers import TOKEN
from lading.testing.played_scheduler import PlayedEnd, PlayedJob, PlayedScheduler
from lading.testing.simulated_loop import play

ONE, TWO, THREE = (f"zzzzz-dz642-{number:015d}" for number in range(1, 4))
_SITE = JobSite(directory="/node", command=("supervisor",), template={})
_AWAY = 120.0
"""Seconds for which the controller is away."""


def request(system: BatchSystem, uuid: str = ONE, *, priority: int = 500) -> JobRequest:
    container = TrackedContainer(
        uuid=uuid, need=Resources(2, 300 * MIB, MIB), partitions=("main",), max_run_time=601
    )
    return JobRequest(
        uuids=(uuid,),
        container=container,
        mark=job_mark(TOKEN, (uuid,)),
        rank=wanted(priority, "2026-01-01T00:00:00Z"),
        script=write(_SITE, [Task(uuid, f"secret of {uuid}")], system.dialect),
    )


def start(uuid: str) -> StartRequest:
    container = TrackedContainer(uuid=uuid, need=Resources(1, MIB), priority=1)
    return StartRequest(uuid=uuid, worker="w", token=f"secret of {uuid}", container=container)


@asynccontextmanager
async def fleet_of(system: BatchSystem) -> AsyncIterator[BatchFleet]:
    """A fleet over the system, as a site has it, once it is known."""
    async with BatchFleet(BatchSettings(token=TOKEN, site=_SITE), system) as fleet:
        await until(fleet, lambda view: view.is_known)
        yield fleet


async def until(fleet: BatchFleet, condition: Callable[[FleetView], bool]) -> FleetView:
    async with asyncio.timeout(3600.0):
        while not condition(fleet.view()):
            await fleet.changed()
    return fleet.view()


class BatchSystemSuite:
    """The promises of every batch system."""

    async def test_a_job_is_listed_with_its_mark_until_it_ends(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        scheduler.slots = 0
        (job,) = await system.submit(request(system))
        (row,) = await system.poll()
        assert (row.job, row.phase, owner(row, token=TOKEN)) == (job, JobPhase.WAITING, ONE)
        scheduler.slots = 1
        (row,) = await system.poll()
        assert (row.phase, bool(row.node)) == (JobPhase.RUNNING, True)
        scheduler.finish(scheduler.of(ONE))
        assert await system.poll() == []

    async def test_no_secret_is_in_an_argument(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        await system.submit(request(system))
        assert scheduler.calls
        assert not any("secret" in word for call in scheduler.calls for word in call)

    async def test_the_needs_of_a_container_are_asked_for(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        await system.submit(request(system))
        words = " ".join(scheduler.jobs[0].arguments)
        assert "main" in words
        assert "300" in words
        assert "601" in words or "11" in words or "0:10:01" in words

    @pytest.mark.parametrize(
        ("end", "failures"),
        [
            (PlayedEnd.DONE, {Failure.INFRASTRUCTURE}),
            (PlayedEnd.CANCELLED, {Failure.INFRASTRUCTURE}),
            (PlayedEnd.TIMEOUT, {Failure.TIMEOUT}),
            (PlayedEnd.NODE_LOST, {Failure.NODE}),
            (PlayedEnd.PREEMPTED, {Failure.PREEMPTED, Failure.NODE}),
        ],
    )
    async def test_the_accounts_tell_how_a_job_ended(
        self,
        scheduler: PlayedScheduler,
        system: BatchSystem,
        end: PlayedEnd,
        failures: set[Failure],
    ) -> None:
        (job,) = await system.submit(request(system))
        await system.poll()
        scheduler.finish(scheduler.of(ONE), end)
        (row,) = await system.ended([job])
        assert (row.job, row.phase, owner(row, token=TOKEN)) == (job, JobPhase.ENDED, ONE)
        assert row.end
        assert row.failure in failures

    async def test_jobs_that_are_not_known_have_no_accounts(self, system: BatchSystem) -> None:
        assert await system.ended(["77"]) == []

    async def test_a_waiting_job_is_cancelled_and_one_that_is_gone_ignored(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        scheduler.slots = 0
        (job,) = await system.submit(request(system))
        for number in (Signals.SIGTERM, Signals.SIGTERM, Signals.SIGKILL):
            await system.cancel([job], number)
        assert scheduler.of(ONE).end is PlayedEnd.CANCELLED
        await system.cancel(["77"], Signals.SIGKILL)

    async def test_kill_ends_a_running_job(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        (job,) = await system.submit(request(system))
        await system.poll()
        await system.cancel([job], Signals.SIGKILL)
        assert scheduler.of(ONE).end is not PlayedEnd.NONE

    async def test_the_more_urgent_job_starts_first(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        scheduler.slots = 0
        ids = {}
        for uuid, priority in ((ONE, 100), (TWO, 900), (THREE, 500)):
            (ids[uuid],) = await system.submit(request(system, uuid, priority=priority))
        await system.reorder(await _pending(system, {ONE: 100, TWO: 900, THREE: 500}))
        assert [job.uuid for job in _ranked(scheduler)] == [TWO, THREE, ONE]
        await system.reorder(await _pending(system, {ONE: 950, TWO: 900, THREE: 500}))
        assert [job.uuid for job in _ranked(scheduler)] == [ONE, TWO, THREE]
        calls = len(scheduler.calls)
        await system.reorder(await _pending(system, {ONE: 950, TWO: 900, THREE: 500}))
        assert len(scheduler.calls) == calls + 1, "only the look: nothing is to be changed"

    async def test_a_waiting_job_says_why(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        scheduler.slots = 0
        (job,) = await system.submit(request(system))
        scheduler.of(ONE).reason = "no node has so much memory free"
        (row,) = await system.poll()
        reason = row.reason or (await system.explain([job])).get(job, "")
        assert "memory" in reason

    async def test_nodes_have_room(self, system: BatchSystem) -> None:
        shapes = await system.shapes()
        assert any(Resources(2, 300 * MIB, MIB).fits(shape.capacity) for shape in shapes)
        assert all(shape.partitions for shape in shapes)

    async def test_a_refusal_is_for_good_and_a_controller_that_is_away_is_not(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        scheduler.refusal = "no queue takes so many processors"
        with pytest.raises(JobRefused, match="so many processors"):
            await system.submit(request(system))
        scheduler.is_down = True
        for call in (
            system.submit(request(system)),
            system.poll(),
            system.shapes(),
            system.ended(["1"]),
            system.cancel(["1"], Signals.SIGKILL),
        ):
            with pytest.raises(Unavailable):
                await call

    async def test_an_answer_that_is_lost_leaves_the_outcome_open(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        scheduler.malice.mute = 1.0
        with pytest.raises(OutcomeUnknown):
            await system.submit(request(system))
        assert [owner(row, token=TOKEN) for row in await system.poll()] == [ONE]

    async def test_a_job_that_was_queued_again_is_told_from_a_new_one(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        await system.submit(request(system))
        (before,) = await system.poll()
        scheduler.requeue(scheduler.of(ONE))
        scheduler.slots = 0
        (after,) = await system.poll()
        assert before.phase is JobPhase.RUNNING
        assert after.restarts or after.phase is JobPhase.WAITING

    def test_late_accounts_do_not_end_a_job_without_its_fate(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        scheduler.malice.accounting_lag = 0.7 * system.accounting_delay

        async def scene() -> None:
            async with fleet_of(system) as fleet:
                await fleet.start(start(ONE))
                await until(fleet, lambda _: scheduler.of(ONE).is_started)
                scheduler.finish(scheduler.of(ONE), PlayedEnd.TIMEOUT)
                view = await until(fleet, lambda view: not view.processes[ONE].alive)
                assert view.processes[ONE].failure is Failure.TIMEOUT

        play(scene())

    def test_a_controller_that_is_away_for_two_minutes_loses_nothing(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        scheduler.malice.skew = 86_400.0

        async def scene() -> None:
            async with fleet_of(system) as fleet:
                await fleet.start(start(ONE))
                scheduler.is_down = True
                await until(fleet, lambda view: not view.workers)
                await asyncio.sleep(_AWAY)
                assert fleet.view().processes[ONE].alive
                scheduler.is_down = False
                await until(fleet, lambda view: bool(view.workers))
                await fleet.start(start(TWO))
                assert fleet.view().processes.keys() == {ONE, TWO}
                assert all(process.alive for process in fleet.view().processes.values())

        play(scene())

    def test_an_id_that_is_used_again_is_the_new_jobs(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        scheduler.malice.reuse = 1

        async def scene() -> None:
            async with fleet_of(system) as fleet:
                await fleet.start(start(ONE))
                await until(fleet, lambda _: scheduler.of(ONE).is_started)
                scheduler.finish(scheduler.of(ONE), PlayedEnd.NODE_LOST)
                await until(fleet, lambda view: not view.processes[ONE].alive)
                await fleet.clean(ONE)
                await fleet.start(start(TWO))
                await until(fleet, lambda _: scheduler.of(TWO).is_started)
                assert scheduler.of(TWO).id == scheduler.of(ONE).id
                scheduler.finish(scheduler.of(TWO), PlayedEnd.TIMEOUT)
                view = await until(fleet, lambda view: not view.processes[TWO].alive)
                assert view.processes[TWO].failure is Failure.TIMEOUT

        play(scene())

    def test_a_quota_of_jobs_holds_back_what_is_too_much(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        scheduler.malice.quota = 2

        async def scene() -> None:
            async with fleet_of(system) as fleet:
                await fleet.start(start(ONE))
                await fleet.start(start(TWO))
                third = asyncio.create_task(fleet.start(start(THREE)))
                await asyncio.sleep(20.0)
                assert not third.done()
                scheduler.finish(scheduler.of(ONE))
                await third
                assert scheduler.of(THREE).is_alive

        play(scene())

    def test_a_job_that_is_ending_for_ever_is_not_run_again(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        async def scene() -> None:
            async with fleet_of(system) as fleet:
                await fleet.start(start(ONE))
                await until(fleet, lambda _: scheduler.of(ONE).is_started)
                scheduler.of(ONE).is_ending = True
                await asyncio.sleep(_AWAY)
                assert fleet.view().processes[ONE].alive
                await fleet.signal(ONE, Signals.SIGKILL)
                assert len(scheduler.jobs) == 1

        play(scene())

    async def test_jobs_of_another_user_are_nobodys(
        self, scheduler: PlayedScheduler, system: BatchSystem
    ) -> None:
        await system.submit(request(system))
        scheduler.of(ONE).user = "stranger"
        assert [owner(row, token=TOKEN) for row in await system.poll()] == []


async def _pending(system: BatchSystem, priorities: dict[str, int]) -> list[PendingJob]:
    return [
        PendingJob(
            id=row.job,
            rank=wanted(priorities[uuid], "2026-01-01T00:00:00Z"),
            priority=row.priority,
            nice=row.nice,
        )
        for row in await system.poll()
        if (uuid := owner(row, token=TOKEN)) is not None
    ]


def _ranked(scheduler: PlayedScheduler) -> list[PlayedJob]:
    return sorted(scheduler.alive(), key=lambda job: -job.level)
