"""Every driver, the fake included, keeps to `lading.testing.conformance.drivers`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from lading.dispatch.fleets.cloud.drivers.driver import Driver
from lading.dispatch.fleets.cloud.drivers.ec2 import open_ec2
from lading.dispatch.fleets.cloud.drivers.loopback import open_loopback
from lading.testing.cloud import open_fake
from lading.testing.conformance.drivers import DriverSuite, MakeSpec, site, specs
from tests.clouds import CLOUDS, driving, running
from tests.ec2 import ec2_endpoint
from tests.reality import need_program, need_root


@asynccontextmanager
async def fake(tmp_path: Path, set_id: str) -> AsyncIterator[Driver]:
    async with open_fake(site({}, tmp_path, set_id)) as driver:
        driver.quick()
        yield driver


@asynccontextmanager
async def loopback(tmp_path: Path, set_id: str) -> AsyncIterator[Driver]:
    need_root()
    for program in ("sshd", "ip", "unshare", "nsenter"):
        need_program(program)
    number = os.getpid() % 200
    parameters = {"Bridge": f"ldd{number}", "Subnet": f"10.{number + 20}.{number}.0/24"}
    async with open_loopback(site(parameters, tmp_path / "vms", set_id)) as driver:
        yield driver
        for one in await driver.list():
            await driver.destroy(one.id)
        driver.network.down()


@asynccontextmanager
async def ec2(tmp_path: Path, set_id: str) -> AsyncIterator[Driver]:
    parameters = {
        "Region": "us-east-1",
        "Endpoint": ec2_endpoint(),
        "AccessKeyID": "test",
        "SecretAccessKey": "test",
    }
    async with open_ec2(site(parameters, tmp_path, set_id)) as driver:
        yield driver
        for one in await driver.list():
            await driver.destroy(one.id)


def through_libcloud(name: str) -> Callable[[Path, str], AbstractAsyncContextManager[Driver]]:
    @asynccontextmanager
    async def opened(tmp_path: Path, set_id: str) -> AsyncIterator[Driver]:
        with running(name, tmp_path) as cloud:
            async with driving(cloud, tmp_path, set_id=set_id) as driver:
                yield driver

    return opened


IMAGES = {name: cloud.image for name, cloud in CLOUDS.items()}
DRIVERS = {"fake": fake, "loopback": loopback, "ec2": ec2} | {
    name: through_libcloud(name) for name in CLOUDS
}


@pytest.fixture(params=list(DRIVERS))
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Driver]:
    async with asyncio.timeout(180), DRIVERS[request.param](tmp_path, "one") as made:
        yield made


@pytest.fixture
def spec(request: pytest.FixtureRequest) -> MakeSpec:
    return specs(IMAGES.get(request.node.callspec.params["driver"], "ami-03cf127a"))


class TestDrivers(DriverSuite):
    """The suite on each driver."""
