"""Every fleet, the fake included, keeps to `lading.testing.conformance.fleets`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import Signals

import pytest

from lading.core.resources import GIB, Resources
from lading.dispatch.fleet import Fleet
from lading.dispatch.fleets.batch.job_script import JobSite
from lading.dispatch.fleets.cloud.cloud_fleet import CloudFleet
from lading.dispatch.fleets.kubernetes.kubernetes_fleet import KubernetesFleet
from lading.dispatch.fleets.local import LocalFleet
from lading.dispatch.fleets.local_settings import LocalSettings
from lading.dispatch.fleets.slurm.slurm_commands import Slurm
from lading.dispatch.fleets.slurm.slurm_fleet import SlurmFleet
from lading.dispatch.fleets.slurm.slurm_settings import SlurmSettings
from lading.testing.cloud import FakeCloud
from lading.testing.cloud_troubles import Troubles
from lading.testing.conformance.fleets import FleetSuite, ready
from lading.testing.fleet import FakeFleet
from lading.testing.kubernetes import FakeCluster
from tests.kubernetes_clusters import MEAN, api_of, kubernetes_settings
from tests.simulation.cloud_scenario import SETTINGS as CLOUD
from tests.simulation.slurm_programs import FakeSlurm


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
    site = JobSite(directory="/node", command=("supervisor",), template={})
    quick = SlurmSettings(
        token="zzzzz-gj3su-000000000000000", site=site, poll_period=0.001, shapes_period=0.001
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
    while not fleet.view().is_known:
        await fleet.changed()
    fleet.pool.create("vm-1", CLOUD.types[-1])
    yield fleet
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    for vm in list(vms.vms):
        vms.take(vm)


@asynccontextmanager
async def kubernetes(_: Path) -> AsyncIterator[Fleet]:
    cluster = FakeCluster()
    async with KubernetesFleet(kubernetes_settings(), api_of(cluster)) as fleet:
        yield fleet
    await cluster.close()


@asynccontextmanager
async def mean_kubernetes(_: Path) -> AsyncIterator[Fleet]:
    cluster = FakeCluster(malice=MEAN, seed=1)
    async with KubernetesFleet(kubernetes_settings(), api_of(cluster)) as fleet:
        yield fleet
    await cluster.close()


FLEETS = [fake, local, slurm, cloud, kubernetes, mean_kubernetes]


@pytest.fixture(params=FLEETS, ids=[one.__name__ for one in FLEETS])
async def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with ready(request.param(tmp_path)) as made:
        yield made


class TestFleets(FleetSuite):
    """The suite on each fleet."""
