"""What every driver promises (`lading.dispatch.fleets.cloud.drivers.driver`), the fake included."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from lading.core.resources import GIB, Resources
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import Driver, DriverSite, Instance, Spec
from lading.dispatch.fleets.cloud.drivers.ec2 import open_ec2
from lading.dispatch.fleets.cloud.drivers.loopback import open_loopback
from lading.testing.cloud import open_fake
from tests.clouds import CLOUDS, driving, running
from tests.ec2 import ec2_endpoint
from tests.reality import need_program, need_root

TAG = "ArvadosInstanceSetID"
KIND = InstanceType(name="small", provider_type="t3.small", resources=Resources(1, GIB), price=0.1)
KEY = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()


@asynccontextmanager
async def fake(tmp_path: Path, set_id: str) -> AsyncIterator[Driver]:
    async with open_fake(
        DriverSite(parameters={}, tag=TAG, set_id=set_id, directory=tmp_path)
    ) as driver:
        driver.quick()
        yield driver


@asynccontextmanager
async def loopback(tmp_path: Path, set_id: str) -> AsyncIterator[Driver]:
    need_root()
    for program in ("sshd", "ip", "unshare", "nsenter"):
        need_program(program)
    number = os.getpid() % 200
    parameters = {"Bridge": f"ldd{number}", "Subnet": f"10.{number + 20}.{number}.0/24"}
    site = DriverSite(parameters=parameters, tag=TAG, set_id=set_id, directory=tmp_path / "vms")
    async with open_loopback(site) as driver:
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
    site = DriverSite(parameters=parameters, tag=TAG, set_id=set_id, directory=tmp_path)
    async with open_ec2(site) as driver:
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


MakeSpec = Callable[..., Spec]
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
    image = IMAGES.get(request.node.callspec.params["driver"], "ami-03cf127a")

    def make(set_id: str = "one", **tags: str) -> Spec:
        return Spec(
            kind=KIND,
            tags={TAG: set_id, "ArvadosInstanceSecret": "abc", **tags},
            public_key=KEY,
            user_data="#!/bin/sh\n",
            image=image,
        )

    return make


async def listed(driver: Driver) -> list[Instance]:
    return sorted(await driver.list(), key=lambda one: one.id)


async def test_nothing_is_there_at_first(driver: Driver) -> None:
    assert await driver.list() == []


async def test_a_vm_is_listed_with_its_tags_type_and_address(
    driver: Driver, spec: MakeSpec
) -> None:
    made = await driver.create(spec(Colour="blue"))
    (one,) = await listed(driver)
    assert one.id == made.id
    assert one.tags == {TAG: "one", "ArvadosInstanceSecret": "abc", "Colour": "blue"}
    assert one.provider_type == "t3.small"
    assert one.address
    assert one.user


async def test_vms_of_others_are_not_listed(driver: Driver, spec: MakeSpec) -> None:
    other = await driver.create(spec("another"))
    mine = await driver.create(spec())
    assert [one.id for one in await driver.list()] == [mine.id]
    await driver.destroy(other.id)


async def test_several_have_names_and_addresses_of_their_own(
    driver: Driver, spec: MakeSpec
) -> None:
    made = await asyncio.gather(*(driver.create(spec()) for _ in range(3)))
    found = await listed(driver)
    assert {one.id for one in made} == {one.id for one in found}
    assert len({one.address for one in found}) == 3


async def test_tags_can_be_changed(driver: Driver, spec: MakeSpec) -> None:
    made = await driver.create(spec())
    await driver.tag(
        made.id, {TAG: "one", "ArvadosInstanceSecret": "abc", "ArvadosIdleBehavior": "hold"}
    )
    (one,) = await driver.list()
    assert one.tags["ArvadosIdleBehavior"] == "hold"


async def test_what_is_destroyed_is_not_listed_and_may_be_destroyed_again(
    driver: Driver, spec: MakeSpec
) -> None:
    made = await driver.create(spec())
    await driver.destroy(made.id)
    await driver.destroy(made.id)
    assert await driver.list() == []


async def test_a_type_has_a_group(driver: Driver) -> None:
    assert driver.group(KIND)
    assert driver.preemption in ("", "ec2", "azure", "google")
