from __future__ import annotations

from collections.abc import Mapping

import pytest

from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import Instance, InstanceSpec, QuotaReached
from lading.dispatch.fleets.cloud.single_instance import OneInstance
from tests.simulation.cloud_scenario import SETTINGS

KIND = SETTINGS.types[0]
SPEC = InstanceSpec(kind=KIND, image="", tags={}, user_data="", public_key="")


class Two:
    """A cloud with two instances, in which nothing may be changed."""

    preemption = "ec2"

    async def create(self, spec: InstanceSpec) -> Instance:
        raise AssertionError

    async def list(self) -> list[Instance]:
        return [Instance(id="i-1"), Instance(id="i-2")]

    async def tag(self, id: str, tags: Mapping[str, str]) -> None:
        raise AssertionError

    async def destroy(self, id: str) -> None:
        raise AssertionError

    async def console(self, id: str) -> str:
        raise AssertionError

    def group(self, kind: InstanceType) -> str:
        return f"group of {kind.name}"


async def test_a_dispatcher_of_a_trial_sees_one_instance_and_changes_none() -> None:
    driver = OneInstance(Two(), "i-2")
    assert [one.id for one in await driver.list()] == ["i-2"]
    assert (driver.preemption, driver.group(KIND)) == ("ec2", f"group of {KIND.name}")
    await driver.destroy("i-2")
    await driver.tag("i-2", {"more": "tags"})
    with pytest.raises(QuotaReached, match="the trial has one instance at a time"):
        await driver.create(SPEC)
