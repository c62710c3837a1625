"""A dispatcher with a fleet of fake VMs and a fake server, in made-up time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from lading.core.containers.container import ContainerState
from lading.core.scheduling.cloud_limits import Limits
from lading.core.scheduling.instance_lifecycle import InstancePhase
from lading.dispatch.fleets.cloud.cloud_fleet import CloudFleet
from lading.dispatch.fleets.cloud.instance_journal import InstanceJournal
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.settings import CloudSettings
from lading.testing.cloud import FakeCloud, FakeVm
from lading.testing.cloud_troubles import Troubles
from lading.testing.containers import FakeContainers
from lading.testing.simulated_loop import pass_time, play
from tests.simulation.cloud_scenario import FINAL, SETTINGS, dispatch


class Scene:
    """Everything that a test looks at. Containers run for `seconds`."""

    def __init__(
        self,
        *,
        troubles: Troubles | None = None,
        made: Callable[[FakeVm, int], None] = lambda *_: None,
        seconds: float = 30.0,
        **settings: Any,
    ) -> None:
        self.server = FakeContainers()
        self.cloud = FakeCloud(
            troubles=troubles, work=self._work, gone=self.server.abandon, on_create=made
        )
        self.settings: CloudSettings = replace(SETTINGS, **settings)
        self.seconds = seconds
        self.journal = InstanceJournal()
        self.fleet: CloudFleet
        self._dispatcher: asyncio.Task[None] | None = None
        self._prefix = 0

    async def _work(self, told: Any) -> None:
        uuid, token = told["container_uuid"], told["supervisor_token"]
        self.server.run(uuid, token)
        await pass_time(self.seconds)
        self.server.finish(uuid, token)

    def open(self) -> None:
        """Start a dispatcher."""
        loop = asyncio.get_running_loop()
        self._prefix += 1
        prefix = f"vm{self._prefix}-"
        self.fleet = CloudFleet(
            self.settings, self.cloud, self.cloud.reach, clock=loop.time, wall=loop.time,
            journal=self.journal, prefix=prefix,
        )  # fmt: skip
        self._dispatcher = asyncio.create_task(dispatch(self.server, self.fleet))

    async def close(self) -> None:
        """End it, as kill -9 does: nothing is done for it."""
        assert self._dispatcher is not None
        self._dispatcher.cancel()
        await asyncio.gather(self._dispatcher, return_exceptions=True)

    async def until(self, condition: Callable[[], object], *, limit: float = 3000.0) -> None:
        """Look again every half second of made-up time."""
        async with asyncio.timeout(limit):
            while not condition():
                assert self._dispatcher is not None
                if self._dispatcher.done():
                    self._dispatcher.result()
                await pass_time(0.5)
        if self.cloud.faults:
            raise self.cloud.faults[0]

    async def until_over(self) -> None:
        """All containers have ended."""
        await self.until(
            lambda: all(self.server.state(uuid) in FINAL for uuid in self.server.records)
        )

    async def until_empty(self) -> None:
        """There is no VM any more."""
        await self.until(lambda: not self.cloud.vms)

    @property
    def machines(self) -> list[CloudMachine]:
        """The VMs as the dispatcher knows them."""
        return list(self.fleet.pool.machines.values())

    def phases(self) -> list[InstancePhase]:
        """Their phases."""
        return [one.phase for one in self.machines]

    def state(self, uuid: str) -> ContainerState:
        """The state of a container."""
        return self.server.state(uuid)

    def told(self, uuid: str) -> str:
        """Its status."""
        return self.server.statuses.get(uuid, "")


@asynccontextmanager
async def fleet_with_a_vm() -> AsyncIterator[tuple[CloudFleet, FakeCloud]]:
    """A fleet without a dispatcher, in real time, that has one VM, i-1."""
    vms = FakeCloud(troubles=Troubles(boot=(0.0, 0.0)))
    vms.quick()
    fleet = CloudFleet(SETTINGS, vms, vms.reach, clock=asyncio.get_running_loop().time)
    serving = asyncio.create_task(fleet.serve())
    while not fleet.view().is_known:
        await fleet.changed()
    fleet.pool.create("vm-1", SETTINGS.types[0])
    while not fleet.view().workers:
        await fleet.changed()
    yield fleet, vms
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


def staged(scene: Scene, acts: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    """Play a test."""

    async def whole() -> None:
        scene.open()
        await asyncio.sleep(0)
        try:
            await acts(scene)
        finally:
            await scene.close()

    play(whole())


def most(number: int) -> Limits:
    """So many VMs at most."""
    return Limits(most=number)
