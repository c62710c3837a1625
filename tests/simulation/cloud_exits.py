"""Time until the dispatcher knows that a supervisor has ended, on thousands of fake VMs, in
simulated time.

Source: docs/spec/cloud, section Invariants.

Each VM runs one supervisor that ends at a moment of its own. Most are told of at once over the open
connection; where that connection has frozen meanwhile, nobody hears of the end, and asking the VM
again has to find it. Either way it must not take longer the more VMs there are: Arvados asks ten
VMs a second, and 3,000 VMs take it five minutes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from lading.core.errors import Unavailable
from lading.core.resources import GIB, Resources
from lading.core.scheduling.cloud_limits import Limits
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleet import StartRequest
from lading.dispatch.fleets.cloud.cloud_fleet import CloudFleet
from lading.dispatch.fleets.cloud.settings import CloudSettings
from lading.testing.cloud import FakeCloud
from lading.testing.cloud_troubles import Troubles
from lading.testing.simulated_loop import play

TOLD, ASKED = 1.0, 60.0
"""Seconds within which an end must be known that was told, and one that has to be asked for: once
`probe_interval`, until the question is given up, the way there again, and once more for what fails
meanwhile."""
_KIND = InstanceType(name="one", provider_type="one", resources=Resources(1, 4 * GIB), price=0.1)
_FIRST, _LAST = 10.0, 70.0
_TICK = 0.1
"""Seconds of a step of the time of a large play: what ends within one is known together."""


@dataclass(slots=True)
class Exits:
    """Seconds until the ends were known: those that were told over the connection, and those that
    were not.
    """

    told: list[float]
    asked: list[float]

    @property
    def well(self) -> bool:
        """Whether none took too long."""
        return max(self.told, default=0.0) <= TOLD and max(self.asked, default=0.0) <= ASKED


class Watch:
    """So many VMs, of which `frozen` is the share whose connection freezes before the end."""

    def __init__(self, vms: int, *, seed: int, frozen: float = 0.1) -> None:
        self._random = Random(seed)
        self._vms = vms
        self._frozen = frozen
        self._cloud = FakeCloud(seed=seed, troubles=Troubles(boot=(5.0, 20.0)), work=self._work)
        settings = CloudSettings(
            types=(_KIND,), set_id="set", limits=Limits(), probe_interval=10.0, probe_rate=1000.0,
            operation_rate=500.0, concurrent_creates=100,
        )  # fmt: skip
        self._settings = replace(settings, times=replace(settings.times, idle=9999.0))
        self._ended: dict[str, float] = {}
        self._unheard: set[str] = set()

    async def _work(self, told: Mapping[str, Any]) -> None:
        uuid = str(told["container_uuid"])
        moment = self._random.uniform(_FIRST, _LAST)
        if self._random.random() < self._frozen:
            self._unheard.add(uuid)
            await asyncio.sleep(moment - 1.0)
            (vm,) = (one for one in self._cloud.vms.values() if uuid in one.lives)
            vm.freeze()
            await asyncio.sleep(1.0)
        else:
            await asyncio.sleep(moment)
        self._ended[uuid] = asyncio.get_running_loop().time()

    async def play(self) -> Exits:
        """See every supervisor end."""
        clock = asyncio.get_running_loop().time
        fleet = CloudFleet(self._settings, self._cloud, self._cloud.reach, clock=clock)
        serving = asyncio.create_task(fleet.serve())
        while not fleet.view().is_known:
            await fleet.changed()
        for number in range(self._vms):
            fleet.pool.create(f"vm-{number}", _KIND)
        while len(workers := fleet.view().workers) < self._vms:
            await fleet.changed()
        await asyncio.gather(
            *(_start(fleet, f"c{number}", one.id) for number, one in enumerate(workers))
        )
        exits = Exits([], [])
        waiting = {f"c{number}" for number in range(self._vms)}
        while waiting:
            await fleet.changed()
            now, processes = clock(), fleet.view().processes
            for uuid in sorted(one for one in waiting if not processes[one].alive):
                waiting.remove(uuid)
                (exits.asked if uuid in self._unheard else exits.told).append(
                    now - self._ended[uuid]
                )
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return exits


async def _start(fleet: CloudFleet, uuid: str, worker: str) -> None:
    while True:
        try:
            await fleet.start(StartRequest(uuid=uuid, worker=worker, token="secret"))
        except Unavailable:
            await asyncio.sleep(1.0)
        else:
            return


def tell_exits(vms: int, *, seed: int) -> bool:
    """Play, and say how it went; whether it went well."""
    began = time.process_time()
    exits = play(Watch(vms, seed=seed).play(), tick=_TICK)
    sys.stdout.write(
        f"{vms} VMs: an end that is told is known after {max(exits.told, default=0.0):.2f} s "
        f"at most ({len(exits.told)}), one that is not after {max(exits.asked, default=0.0):.1f} s "
        f"({len(exits.asked)}); {time.process_time() - began:.1f} s\n"
    )
    sys.stdout.flush()
    return exits.well
