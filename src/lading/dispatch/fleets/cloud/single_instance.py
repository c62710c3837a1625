"""A driver for one instance of another driver: it is listed, and no further one is made."""

from __future__ import annotations

from collections.abc import Mapping

from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import (
    Driver,
    Instance,
    InstanceSpec,
    QuotaReached,
)


class OneInstance:
    """Implements `Driver`: one instance of another driver, without creation and removal."""

    def __init__(self, driver: Driver, id: str) -> None:
        self._driver = driver
        self._id = id
        self.preemption = driver.preemption

    async def create(self, spec: InstanceSpec) -> Instance:
        """Raise QuotaReached."""
        # The dispatcher handles this like a quota: it waits and asks for no more VMs.
        raise QuotaReached(
            f"the trial has one instance at a time, and none of {spec.kind.name} beside it"
        )

    async def list(self) -> list[Instance]:
        """The instance, while the cloud lists it."""
        return [instance for instance in await self._driver.list() if instance.id == self._id]

    async def tag(self, id: str, tags: Mapping[str, str]) -> None:
        """Leave the tags: the trial changes them itself."""

    async def destroy(self, id: str) -> None:
        """Leave the instance: the trial removes it itself."""

    async def console(self, id: str) -> str:
        """See `Driver`."""
        return await self._driver.console(id)

    def group(self, kind: InstanceType) -> str:
        """See `Driver`."""
        return self._driver.group(kind)
