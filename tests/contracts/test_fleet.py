"""What every fleet promises (`lading.dispatch.fleet`), the fake included."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from signal import Signals

import pytest

from lading.core.errors import Conflict
from lading.core.resources import GIB, Resources
from lading.dispatch.fleet import Assignment, Fleet, FleetView
from lading.dispatch.fleets.cloud.cloud_fleet import CloudFleet
from lading.dispatch.fleets.local import LocalFleet, LocalSettings
from lading.dispatch.fleets.slurm.job_script import Site
from lading.dispatch.fleets.slurm.slurm_commands import Slurm
from lading.dispatch.fleets.slurm.slurm_fleet import SlurmFleet, SlurmSettings
from lading.testing.cloud import FakeCloud, Troubles
from lading.testing.fleet import FakeFleet
from tests.simulation.cloud_scenario import SETTINGS as CLOUD
from tests.simulation.slurm_programs import FakeSlurm

ONE, TWO = "zzzzz-dz642-000000000000001", "zzzzz-dz642-000000000000002"


@asynccontextmanager
async def fake(_: Path) -> AsyncIterator[Fleet]:
    fleet = FakeFleet()
    yield fleet
    await fleet.close()


@asynccontextmanager
async def local(run: Path) -> AsyncIterator[Fleet]:
    settings = LocalSettings(
        command=(sys.executable, "-S", "-E", str(Path(__file__).with_name("warm_parent.py"))),
        run_directory=run,
        template={"engine": "none"},
        capacity=Resources(2, GIB),
    )
    async with LocalFleet(settings) as fleet:
        yield fleet
        for uuid in fleet.view().processes:
            await fleet.signal(uuid, Signals.SIGKILL)


@asynccontextmanager
async def slurm(_: Path) -> AsyncIterator[Fleet]:
    programs = FakeSlurm()
    site = Site(directory="/node", command=("supervisor",), template={})
    quick = SlurmSettings(
        token="zzzzz-gj3su-000000000000000", site=site, poll_period=0.001, sinfo_period=0.001
    )
    async with SlurmFleet(quick, Slurm(programs, timeout=1.0)) as fleet:
        yield fleet


@asynccontextmanager
async def cloud(_: Path) -> AsyncIterator[Fleet]:
    vms = FakeCloud(troubles=Troubles(boot=(0.0, 0.0)))
    vms.quick()
    loop = asyncio.get_running_loop()
    fleet = CloudFleet(CLOUD, vms, vms.reach, clock=loop.time)
    serving = asyncio.create_task(fleet.serve())
    while not fleet.view().known:
        await fleet.changed()
    fleet.pool.create("vm-1", CLOUD.types[-1])
    yield fleet
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    for vm in list(vms.vms):
        vms.take(vm)


@pytest.fixture(params=[fake, local, slurm, cloud], ids=["fake", "local", "slurm", "cloud"])
async def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with asyncio.timeout(180), request.param(tmp_path) as made:
        await until(made, lambda view: view.known and bool(view.workers))
        yield made


async def until(fleet: Fleet, condition: Callable[[FleetView], bool]) -> FleetView:
    while not condition(fleet.view()):
        await fleet.changed()
    return fleet.view()


def on(fleet: Fleet, uuid: str = ONE) -> Assignment:
    return Assignment(uuid=uuid, worker=fleet.view().workers[0].id, token="secret")


async def test_a_worker_has_a_capacity(fleet: Fleet) -> None:
    assert Resources(1, 1).fits(fleet.view().workers[0].capacity)
    assert fleet.view().processes == {}


async def test_a_started_process_is_in_the_view_at_once(fleet: Fleet) -> None:
    await fleet.start(on(fleet))
    process = fleet.view().processes[ONE]
    assert process.alive
    assert process.worker


async def test_a_container_has_one_process(fleet: Fleet) -> None:
    await fleet.start(on(fleet))
    with pytest.raises(Conflict):
        await fleet.start(on(fleet))


async def test_processes_are_independent(fleet: Fleet) -> None:
    await fleet.start(on(fleet))
    await fleet.start(on(fleet, TWO))
    await fleet.signal(ONE, Signals.SIGKILL)
    view = await until(fleet, lambda view: not view.processes[ONE].alive)
    assert view.processes[TWO].alive


async def test_an_exited_process_stays_in_the_view_until_it_is_cleaned(fleet: Fleet) -> None:
    await fleet.start(on(fleet))
    await fleet.signal(ONE, Signals.SIGKILL)
    await until(fleet, lambda view: not view.processes[ONE].alive)
    with pytest.raises(Conflict):
        await fleet.start(on(fleet))
    await fleet.clean(ONE)
    assert ONE not in fleet.view().processes
    await fleet.start(on(fleet))
    assert fleet.view().processes[ONE].alive


async def test_a_living_process_is_not_cleaned_away(fleet: Fleet) -> None:
    await fleet.start(on(fleet))
    with pytest.raises(Conflict):
        await fleet.clean(ONE)
    assert fleet.view().processes[ONE].alive


async def test_cleaning_may_be_repeated(fleet: Fleet) -> None:
    await fleet.clean(ONE)
    await fleet.clean(ONE)
    assert ONE not in fleet.view().processes


async def test_a_signal_to_nobody_does_nothing(fleet: Fleet) -> None:
    await fleet.signal(ONE, Signals.SIGTERM)
    await fleet.start(on(fleet))
    await fleet.signal(ONE, Signals.SIGKILL)
    await until(fleet, lambda view: not view.processes[ONE].alive)
    await fleet.signal(ONE, Signals.SIGTERM)
    assert not fleet.view().processes[ONE].alive


async def test_an_assignment_does_not_show_its_token(fleet: Fleet) -> None:
    assert "secret" not in repr(on(fleet))
