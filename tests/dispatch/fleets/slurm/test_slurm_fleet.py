"""The Slurm fleet on Slurm programs made of tables; its promises are in
src/lading/testing/conformance/fleets.py.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from signal import Signals

import pytest

from lading.core.containers.container import ContainerState
from lading.core.errors import Conflict, Failure, Unavailable
from lading.core.resources import MIB, Resources
from lading.core.scheduling.instance_types import Gpu
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleet import StartRequest
from lading.dispatch.fleets.batch.job_script import JobSite
from lading.dispatch.fleets.batch.programs import JobRefused
from lading.dispatch.fleets.slurm.slurm_commands import Slurm
from lading.dispatch.fleets.slurm.slurm_fleet import SlurmFleet
from lading.dispatch.fleets.slurm.slurm_settings import SlurmSettings
from lading.testing.containers import QUICK, TOKEN, FakeContainers, dispatching
from lading.testing.fleet import Work
from tests.simulation.slurm_programs import FakeSlurm, Malice

UUIDS = [f"zzzzz-dz642-{n:015d}" for n in range(10)]
ONE, TWO = UUIDS[:2]


def settings(**more: object) -> SlurmSettings:
    site = JobSite(
        directory="/node", command=("supervisor",), template={}, hooks=str(more.pop("hooks", ""))
    )
    usual = {
        "poll_period": 0.001,
        "shapes_period": 0.001,
        "hook_period": 0.001,
        "longest_pause": 0.02,
    }
    return SlurmSettings(token=TOKEN, site=site, **{**usual, **more})  # type: ignore[arg-type]


@asynccontextmanager
async def fleet_of(slurm: FakeSlurm, **more: object) -> AsyncIterator[SlurmFleet]:
    async with (
        asyncio.timeout(180),
        SlurmFleet(
            settings(**more), Slurm(slurm, timeout=1.0, users=(str(os.geteuid()),))
        ) as fleet,
    ):
        await until(fleet, lambda: fleet.view().is_known or slurm.down)
        yield fleet
    await slurm.close()


async def until(fleet: SlurmFleet, condition: Callable[[], bool]) -> None:
    while not condition():
        await fleet.changed()


def order(uuid: str, wanted: int = 1, **more: object) -> StartRequest:
    made = TrackedContainer(uuid=uuid, need=Resources(1, MIB), priority=1001 + wanted, **more)  # type: ignore[arg-type]
    return StartRequest(uuid=uuid, worker="Slurm", token=f"secret of {uuid}", container=made)


def _asked(slurm: FakeSlurm) -> int:
    """How often it was asked about a job."""
    return sum(call[0] == "squeue" and "--states=all" in call for call in slurm.calls)


def alive(fleet: SlurmFleet, uuid: str = ONE) -> bool:
    return fleet.view().processes[uuid].alive


async def test_capacity_is_what_sinfo_says() -> None:
    slurm = FakeSlurm(nodes="main*|8|100|50|idle|(null)|2\nbig|64|9000|5|mixed|gpu:2|2\n")
    async with fleet_of(slurm) as fleet:
        small, big = fleet.view().workers
    assert (small.capacity, small.closed, small.queues) == (
        Resources(8, 100 * MIB, 50 * MIB),
        False,
        True,
    )
    assert (big.capacity.gpus, big.partitions, big.closed) == (2, frozenset({"big"}), True)


async def test_a_job_names_the_type_of_gpus_that_suits() -> None:
    slurm = FakeSlurm(nodes="main*|8|100|50|idle|gpu:a100:2|2\nmain*|8|90|50|idle|gpu:t4:4|2\n")
    asked = Gpu(stack="cuda", count=2, targets=("ampere",))
    async with fleet_of(slurm) as fleet:
        workers = fleet.view().workers
        start = order(ONE, gpu=asked)
        container = replace(start.container, need=Resources(1, MIB, gpus=2))
        await fleet.start(replace(start, container=container))
        assert [worker.admits(container) for worker in workers] == [
            "a100" in worker.id for worker in workers
        ]
    [call] = [call for call in slurm.calls if call[0] == "sbatch"]
    assert "--gpus=a100:2" in call


async def test_what_arrives_together_and_is_alike_is_one_array() -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm, array_size=50) as fleet:
        starts = [order(uuid, wanted) for wanted, uuid in enumerate(UUIDS[:5])]
        await asyncio.gather(
            *(fleet.start(one) for one in [*starts, order(UUIDS[5], partitions=("big",))])
        )
        assert all(alive(fleet, uuid) for uuid in UUIDS[:6])
    submitted = [call for call in slurm.calls if call[0] == "sbatch"]
    assert sum("--array" in " ".join(call) for call in submitted) >= 1
    assert len(submitted) <= 4
    assert any("--partition=big" in call for call in submitted)
    assert not any("secret" in " ".join(call) for call in slurm.calls)


async def test_a_container_is_a_job_of_its_own_unless_arrays_are_switched_on() -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm) as fleet:
        await asyncio.gather(*(fleet.start(order(uuid)) for uuid in UUIDS[:4]))
    assert sum(call[0] == "sbatch" for call in slurm.calls) == 4


async def test_no_more_is_asked_for_than_may_wait() -> None:
    slurm = FakeSlurm(slots=0)
    async with fleet_of(slurm, most_waiting=3) as fleet:
        assert fleet.view().most == 3
        await fleet.start(order(ONE))
        assert fleet.view().most == 2


async def test_a_refusal_says_why_and_leaves_nothing() -> None:
    slurm = FakeSlurm(
        refusal="Batch job submission failed: Requested node configuration is not available"
    )
    async with fleet_of(slurm) as fleet:
        with pytest.raises(JobRefused, match="Requested node configuration"):
            await fleet.start(order(ONE))
        assert fleet.view().processes == {}
        assert fleet.view().workers


async def test_while_slurm_is_away_nothing_is_handed_to_it_and_nothing_is_forgotten() -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm) as fleet:
        await fleet.start(order(ONE))
        slurm.down = True
        await until(fleet, lambda: not fleet.view().workers)
        assert alive(fleet)
        with pytest.raises(Unavailable):
            await fleet.start(order(TWO))
        slurm.down = False
        await until(fleet, lambda: bool(fleet.view().workers))
        assert alive(fleet)


async def test_looks_get_rarer_while_slurm_is_away() -> None:
    slurm = FakeSlurm(down=True)
    async with fleet_of(slurm, poll_period=0.001, longest_pause=3600.0) as fleet:
        await slurm.pulse.wait_for(lambda: len(slurm.calls) >= 3)
        began = asyncio.get_running_loop().time()
        await slurm.pulse.wait_for(lambda: len(slurm.calls) >= 6)
        assert asyncio.get_running_loop().time() - began >= 0.05
        assert not fleet.view().is_known


async def test_a_submission_without_answer_is_found_by_the_next_look() -> None:
    slurm = FakeSlurm(malice=Malice(mute=1.0))
    async with fleet_of(slurm) as fleet:
        with pytest.raises(Unavailable):
            await fleet.start(order(ONE))
        await until(fleet, lambda: bool(fleet.view().processes[ONE].note))
        with pytest.raises(Conflict):
            await fleet.start(order(ONE))


async def test_a_submission_that_slurm_has_no_time_for_is_made_again() -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm, longest_pause=60.0) as fleet:
        slurm.failing = {
            "sbatch": "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying"
        }
        start = asyncio.create_task(fleet.start(order(ONE)))
        await slurm.pulse.wait_for(lambda: any(call[0] == "sbatch" for call in slurm.calls))
        slurm.failing = {}
        await start
    assert len(slurm.jobs) == 1


async def test_one_command_that_fails_does_not_stop_the_others_several_in_a_row_do() -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm, poll_period=3600.0, longest_pause=3600.0) as fleet:
        slurm.failing = {
            "sbatch": "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying"
        }
        start = asyncio.create_task(fleet.start(order(ONE)))
        await until(fleet, lambda: not fleet.view().workers)
        assert sum(call[0] == "sbatch" for call in slurm.calls) == 3
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)


async def test_a_job_that_a_look_does_not_show_lives_until_slurm_says_that_it_does_not() -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm) as fleet:
        await fleet.start(order(ONE))
        slurm.hidden = {"1"}
        slurm.failing = {
            "squeue --jobs": "slurm_load_jobs error: Socket timed out on send/recv operation"
        }
        for failing in (slurm.failing, {}):
            slurm.failing, asked = failing, _asked(slurm)
            await slurm.pulse.wait_for(lambda asked=asked: _asked(slurm) > asked + 2)  # type: ignore[misc]
            assert alive(fleet)
        slurm.end(slurm.of(ONE))
        await until(fleet, lambda: not alive(fleet))


async def test_what_slurm_does_not_do_for_order_ends_nothing() -> None:
    slurm = FakeSlurm(failing={"scancel": "scancel: error: something new"})
    async with fleet_of(slurm) as fleet:
        await fleet.start(order(ONE))
        first = slurm.of(ONE)
        await slurm(["sbatch", *first.arguments], stdin=slurm.scripts[0].encode(), timeout=1.0)
        slurm.failing["sinfo"] = "sinfo: error: something new"
        await slurm.pulse.wait_for(lambda: sum(call[0] == "scancel" for call in slurm.calls) > 2)
        assert fleet.view().workers
        del slurm.failing["scancel"]
        await slurm.pulse.wait_for(lambda: slurm.of(ONE).state == "CANCELLED")
        assert alive(fleet)


async def test_one_look_serves_all_jobs() -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm, poll_period=3600.0, array_size=1) as fleet:
        await asyncio.gather(*(fleet.start(order(uuid)) for uuid in UUIDS))
        looks = sum(call[0] == "squeue" for call in slurm.calls)
        await fleet.signal(ONE, Signals.SIGKILL)
        await until(fleet, lambda: not alive(fleet))
        assert (
            sum(call[0] == "squeue" and "--states=all" not in call for call in slurm.calls)
            == looks + 1
        )


async def test_term_goes_to_the_script_of_a_running_job_and_ends_a_waiting_one() -> None:
    slurm = FakeSlurm(slots=0)
    async with fleet_of(slurm) as fleet:
        await fleet.start(order(ONE))
        await fleet.signal(ONE, Signals.SIGTERM)
        await until(fleet, lambda: not alive(fleet))
    assert [call[1:] for call in slurm.calls if call[0] == "scancel"] == [
        ("--state=pending", "1"),
        ("--batch", "--signal=TERM", "--state=running", "1"),
        ("--batch", "--signal=TERM", "--state=suspended", "1"),
    ]
    assert "CANCELLED" in fleet.view().processes[ONE].fate


async def test_a_lost_job_and_one_that_was_queued_again_are_told_apart() -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm) as fleet:
        for uuid in (ONE, TWO):
            await fleet.start(order(uuid))
        await until(
            fleet, lambda: all("Started by" in one.note for one in fleet.view().processes.values())
        )
        slurm.end(slurm.of(ONE), "NODE_FAIL")
        slurm.requeue(slurm.of(TWO))
        await until(fleet, lambda: not alive(fleet) and not alive(fleet, TWO))
        lost, again = fleet.view().processes[ONE], fleet.view().processes[TWO]
        assert (lost.failure, again.failure) == (Failure.NODE, Failure.NODE)
        assert "its node failed (NODE_FAIL" in lost.fate
        assert "not run twice" in again.fate
        await fleet.clean(TWO)
        assert slurm.of(TWO).state == "CANCELLED"
        assert list(fleet.view().processes) == [ONE]


async def test_the_hook_tells_before_the_next_look(tmp_path: Path) -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm, poll_period=3600.0, hooks=tmp_path) as fleet:
        await fleet.start(order(ONE))
        (tmp_path / "1").touch()
        await until(fleet, lambda: not alive(fleet))
        assert list(tmp_path.iterdir()) == []


async def test_an_end_before_that_of_the_record_has_the_reason_of_slurm(tmp_path: Path) -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm, poll_period=0.2, hooks=tmp_path) as fleet:
        state = ContainerState.RUNNING
        fleet.set_lookup(lambda uuid: TrackedContainer(uuid=uuid, state=state))
        await fleet.start(order(ONE))
        slurm.end(slurm.of(ONE), "PREEMPTED")
        (tmp_path / "1").touch()
        await until(fleet, lambda: not alive(fleet))
        process = fleet.view().processes[ONE]
        assert (process.failure, "it was preempted" in process.fate) == (Failure.PREEMPTED, True)


async def test_a_hook_that_comes_before_the_report_waits_for_it(tmp_path: Path) -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm, poll_period=3600.0, hooks=tmp_path) as fleet:
        records = {ONE: TrackedContainer(uuid=ONE, state=ContainerState.RUNNING)}
        fleet.set_lookup(records.get)
        await fleet.start(order(ONE))
        (tmp_path / "1").touch()
        while list(tmp_path.iterdir()):
            await asyncio.sleep(0)
        records[ONE] = TrackedContainer(uuid=ONE, state=ContainerState.COMPLETE)
        await until(fleet, lambda: not alive(fleet))


async def test_a_hook_directory_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm, hooks=tmp_path / "gone") as fleet:
        await fleet.start(order(ONE))
        slurm.end(slurm.of(ONE))
        await until(fleet, lambda: not alive(fleet))


async def test_priorities_become_nice_values() -> None:
    slurm, wanted = FakeSlurm(slots=0), {ONE: 1 << 60, TWO: 2 << 60}
    async with fleet_of(slurm) as fleet:
        fleet.set_lookup(lambda uuid: TrackedContainer(uuid=uuid, priority=wanted[uuid]))
        for uuid in (ONE, TWO):
            await fleet.start(order(uuid, partitions=(uuid,)))
        await until(fleet, lambda: slurm.of(TWO).nice == 0)
        assert slurm.of(ONE).priority < slurm.of(TWO).priority
        wanted[ONE] = 3 << 60
        await until(fleet, lambda: slurm.of(ONE).priority > slurm.of(TWO).priority)


async def test_a_stray_job_is_cancelled() -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm) as fleet:
        await fleet.start(order(ONE))
        first = slurm.of(ONE)
        await slurm(["sbatch", *first.arguments], stdin=slurm.scripts[0].encode(), timeout=1.0)
        await until(fleet, lambda: slurm.of(ONE).state == "CANCELLED")
        assert first.state != "CANCELLED"


async def test_a_new_dispatcher_finds_the_jobs_of_the_one_before() -> None:
    slurm = FakeSlurm()
    async with fleet_of(slurm) as fleet:
        await asyncio.gather(*(fleet.start(order(uuid)) for uuid in UUIDS[:3]))
        slurm_jobs = dict(slurm.jobs)
    for job in slurm_jobs.values():
        job.state = "RUNNING"
    async with fleet_of(slurm) as fleet:
        assert {uuid for uuid, one in fleet.view().processes.items() if one.alive} == set(UUIDS[:3])


async def test_a_job_that_is_being_submitted_is_signalled_later() -> None:
    slurm = FakeSlurm(malice=Malice(mute=1.0))
    async with fleet_of(slurm, poll_period=3600.0) as fleet:
        with pytest.raises(Unavailable):
            await fleet.start(order(ONE))
        with pytest.raises(Unavailable, match="being submitted"):
            await fleet.signal(ONE, Signals.SIGTERM)


def work_on(server: FakeContainers) -> Work:
    async def work(assignment: StartRequest) -> None:
        server.run(assignment.uuid, assignment.token)
        for _ in range(5):
            await asyncio.sleep(0)
        server.finish(assignment.uuid, assignment.token)

    return work


@pytest.mark.parametrize("seed", range(4))
async def test_everything_ends_whatever_slurm_does(seed: int) -> None:
    server = FakeContainers(seed=seed, attempts=1000)
    work = work_on(server)
    malice = Malice(away=0.1, mute=0.1, crash=0.2)
    slurm = FakeSlurm(
        work=lambda uuid, token: work(StartRequest(uuid=uuid, worker="", token=token)),
        seed=seed,
        malice=malice,
        slots=8,
    )
    uuids = [server.add() for _ in range(60)]
    async with fleet_of(slurm) as fleet, dispatching(server, fleet, settings=QUICK):
        await server.wait_for(
            lambda: all(
                server.state(uuid) in (ContainerState.COMPLETE, ContainerState.CANCELLED)
                for uuid in uuids
            )
        )
        await until(fleet, lambda: not fleet.view().processes and not slurm.alive())
    assert sum(server.state(uuid) is ContainerState.COMPLETE for uuid in uuids) == 60


async def test_a_gang_that_no_node_holds_has_a_node_for_each_rank() -> None:
    slurm = FakeSlurm(nodes="main*|2|100|50|idle|(null)|3\n")
    async with fleet_of(slurm) as fleet:
        (kind,) = fleet.view().workers
        for uuid, vcpus in ((ONE, 2), (TWO, 6)):
            need = TrackedContainer(
                uuid=uuid, need=Resources(vcpus, MIB), nodes=vcpus // 2 if vcpus > 2 else 2
            )
            await fleet.start(StartRequest(uuid=uuid, worker=kind.id, token="t", container=need))
    assert kind.nodes == {"main": 3, "": 3}
    together, apart = (" ".join(call) for call in slurm.calls if call[0] == "sbatch")
    assert "--nodes=1 --ntasks=2" in together
    assert "--nodes=3 --ntasks=3 --ntasks-per-node=1" in apart
    assert ["annex_command" in script for script in slurm.scripts] == [False, True]


async def test_a_gang_that_names_partitions_is_spread_by_the_nodes_of_those() -> None:
    slurm = FakeSlurm(nodes="main*|2|100|50|idle|(null)|3\nlarge|8|100|50|idle|(null)|1\n")
    async with fleet_of(slurm) as fleet:
        kind = fleet.view().workers[0]
        for uuid, named in ((ONE, ("main",)), (TWO, ("large",))):
            gang = TrackedContainer(uuid=uuid, need=Resources(6, MIB), nodes=3, partitions=named)
            await fleet.start(StartRequest(uuid=uuid, worker=kind.id, token="t", container=gang))
    assert ["annex_command" in script for script in slurm.scripts] == [True, False]
