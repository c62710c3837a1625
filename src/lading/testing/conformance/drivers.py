"""Conformance suite of drivers of cloud VMs.

A test module subclasses `DriverSuite` for a `lading.dispatch.fleets.cloud.drivers.driver.Driver`
and gives two fixtures: `driver`, opened with `site` for the instance set "one" of an account
without VMs, and `spec`, made by `specs` with an image that the cloud has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import asyncssh

from lading.core.resources import GIB, Resources
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import Driver, DriverSite, Instance, InstanceSpec

TAG = "ArvadosInstanceSetID"
KIND = InstanceType(name="small", provider_type="t3.small", resources=Resources(1, GIB), price=0.1)

MakeSpec = Callable[..., InstanceSpec]


def site(parameters: Mapping[str, object], directory: Path, set_id: str = "one") -> DriverSite:
    """The site of a driver under test: its parameters and a directory that is the test's own."""
    return DriverSite(parameters=parameters, tag=TAG, set_id=set_id, directory=directory)


def specs(image: str = "ami-03cf127a") -> MakeSpec:
    """A function that makes specs of small VMs from an instance set and further tags."""
    generated = asyncssh.generate_private_key("ssh-ed25519")
    key = generated.export_public_key().decode().strip()

    def make(set_id: str = "one", **tags: str) -> InstanceSpec:
        return InstanceSpec(
            kind=KIND,
            tags={TAG: set_id, "ArvadosInstanceSecret": "abc", **tags},
            public_key=key,
            user_data="#!/bin/sh\n",
            image=image,
        )

    return make


async def listed(driver: Driver) -> list[Instance]:
    return sorted(await driver.list(), key=lambda instance: instance.id)


class DriverSuite:
    """The promises of every driver."""

    async def test_nothing_is_there_at_first(self, driver: Driver) -> None:
        assert await driver.list() == []

    async def test_a_vm_is_listed_with_its_tags_type_and_address(
        self, driver: Driver, spec: MakeSpec
    ) -> None:
        made = await driver.create(spec(Colour="blue"))
        (one,) = await listed(driver)
        assert one.id == made.id
        assert one.tags == {TAG: "one", "ArvadosInstanceSecret": "abc", "Colour": "blue"}
        assert one.provider_type == "t3.small"
        assert one.address
        assert one.user

    async def test_vms_of_others_are_not_listed(self, driver: Driver, spec: MakeSpec) -> None:
        other = await driver.create(spec("another"))
        mine = await driver.create(spec())
        assert [instance.id for instance in await driver.list()] == [mine.id]
        await driver.destroy(other.id)

    async def test_several_have_names_and_addresses_of_their_own(
        self, driver: Driver, spec: MakeSpec
    ) -> None:
        made = await asyncio.gather(*(driver.create(spec()) for _ in range(3)))
        found = await listed(driver)
        assert {instance.id for instance in made} == {instance.id for instance in found}
        assert len({instance.address for instance in found}) == 3

    async def test_tags_can_be_changed(self, driver: Driver, spec: MakeSpec) -> None:
        made = await driver.create(spec())
        await driver.tag(
            made.id, {TAG: "one", "ArvadosInstanceSecret": "abc", "ArvadosIdleBehavior": "hold"}
        )
        (one,) = await driver.list()
        assert one.tags["ArvadosIdleBehavior"] == "hold"

    async def test_what_is_destroyed_is_not_listed_and_may_be_destroyed_again(
        self, driver: Driver, spec: MakeSpec
    ) -> None:
        made = await driver.create(spec())
        await driver.destroy(made.id)
        await driver.destroy(made.id)
        assert await driver.list() == []

    async def test_a_type_has_a_group(self, driver: Driver) -> None:
        assert driver.group(KIND)
        assert driver.preemption in ("", "ec2", "azure", "google")
