from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from lading.core.errors import Invalid, Unavailable
from lading.core.resources import Resources
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
    Instance,
    InstanceSpec,
    find_driver,
)
from lading.dispatch.fleets.cloud.drivers.libcloud import LibcloudDriver, open_libcloud
from lading.dispatch.fleets.cloud.drivers.libcloud_connection import ProviderLogin
from tests.clouds import CLOUDS, driving, running


@pytest.mark.parametrize("name", CLOUDS)
async def test_wrong_credentials_are_said(tmp_path: Path, name: str) -> None:
    with running(name, tmp_path) as cloud:
        parameters = cloud.parameters
        cloud.secret = "changed"
        site = DriverSite(parameters=parameters, tag="T", set_id="s", directory=tmp_path)
        async with open_libcloud(site) as driver:
            with pytest.raises(Invalid, match=r"401|invalid_grant|Invalid JWT"):
                await driver.list()


async def test_a_cloud_that_is_not_there_is_said(tmp_path: Path) -> None:
    with running("openstack", tmp_path) as cloud:
        pass
    async with driving(cloud, tmp_path) as driver:
        with pytest.raises(Unavailable, match="OpenStack cannot be reached: .*refused"):
            await driver.list()


@pytest.mark.parametrize("told", [None, "ec2", 5])
async def test_a_provider_must_be_named(tmp_path: Path, told: object) -> None:
    site = DriverSite(parameters={"Provider": told}, tag="T", set_id="s", directory=tmp_path)
    with pytest.raises(
        Invalid, match=f"Provider: {told!r}; it must be one of azure, google, openstack"
    ):
        async with open_libcloud(site):
            pass


def test_it_is_found_by_its_entry_point() -> None:
    assert find_driver("libcloud") is open_libcloud


class Slow:
    """A provider that answers when it is let."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.threads = set[int]()
        self.closed = False

    def create(self, spec: InstanceSpec) -> Instance:
        raise Unavailable("nothing is made")

    def list(self) -> list[Instance]:
        self.threads.add(threading.get_ident())
        self.let.wait(20)
        return []

    def tag(self, id: str, tags: Mapping[str, str]) -> None:
        del id, tags

    def destroy(self, id: str) -> None:
        del id

    def console(self, id: str) -> str:
        return id

    def close(self) -> None:
        self.closed = True


async def test_no_call_waits_for_ever_nor_in_the_thread_of_the_loop() -> None:
    slow = Slow()
    driver = LibcloudDriver(
        ProviderLogin(open=lambda: slow, group=lambda kind: kind.name), longest=0.05
    )
    with pytest.raises(Unavailable, match="the cloud did not answer in 0.05 s"):
        await driver.list()
    await driver.destroy("one")
    slow.let.set()
    assert await driver.list() == []
    assert threading.get_ident() not in slow.threads
    assert driver.group(InstanceType(name="n", provider_type="p", resources=Resources())) == "n"
    await driver.close()
    assert slow.closed
