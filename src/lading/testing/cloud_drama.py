"""`python -m lading.testing.cloud_drama --seeds N`: fleets of fake VMs under every trouble at once, in made-up time.

For each seed containers come in waves, the quota changes, dispatchers are ended at any moment and others take over, or
are there at the same time with the same token. What must hold: no container ever has two supervisors, each ends once,
nobody else's VM is ever touched, and in the end there is no VM left. `--replay SEED` plays one again with its log.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.core.cloudlimits import Limits
from lading.core.container import State
from lading.core.instances import InstanceType
from lading.core.sizing import GIB, Resources
from lading.core.virtualmachine import Times
from lading.dispatch.cloud.fleet import CloudFleet
from lading.dispatch.cloud.settings import CloudSettings
from lading.dispatch.run import run
from lading.dispatch.settings import Settings
from lading.testing.cloud import Crashed, FakeCloud, Troubles, play
from lading.testing.containers import FakeContainers, Faults

FINAL = (State.COMPLETE, State.CANCELLED)
TYPES = tuple(
    InstanceType(name=f"type{n}", provider_type=f"provider{n}", resources=Resources(n, 4 * n * GIB), price=n * 0.1)
    for n in (1, 2, 3, 4, 6, 8, 16)
)
SETTINGS = CloudSettings(
    types=TYPES,
    set_id="set",
    limits=Limits(most=200),
    times=Times(idle=60.0, booting=300.0, probe=120.0),
    probe_interval=10.0,
    probe_rate=1000.0,
    sync_interval=30.0,
    operation_rate=500.0,
    operation_timeout=30.0,
    shutdown_timeout=10.0,
)
LOOP = Settings(poll_interval=20.0, kill_interval=5.0, kill_patience=60.0, twin_patience=30.0)
SELDOM = replace(LOOP, window=300, status_interval=30.0)
"""For long plays: fewer are looked at, and told less often why they wait."""


def worst(seed: int) -> Troubles:
    """Troubles of all kinds, more or less of each by the seed."""
    draw = Random(f"troubles {seed}")

    def some(most: float) -> float:
        return draw.choice((0.0, most / 4, most / 2, most))

    return Troubles(
        create_fails=some(0.5), create_pretends=some(0.2), destroy_fails=some(0.5), list_fails=some(0.3),
        hangs=some(0.05), missing=some(0.2), doubled=some(0.1), quota=draw.choice((0, 5, 10, 200)),
        gap=draw.choice((0.0, 0.0, 3.0)), scarce=frozenset(draw.choice(((), ("provider6",)))),
        never_boots=some(0.2), dies=some(0.3), breaks=some(0.2), taken=some(0.3), loses_link=some(0.05),
        crash_before=some(0.25), crash_after=some(0.25), stuck=some(0.25), lag=some(20.0),
        impostor=some(0.1), slow_copy=some(30.0), late_tags=some(60.0),
    )  # fmt: skip


@dataclass(slots=True)
class Outcome:
    """What a drama came to: seconds of its own time, the most VMs at once, VMs in all, locks of all containers."""

    seconds: float
    most: int
    made: int
    locks: int
    refused: Mapping[str, int]


class Drama:
    """One play of a seed. `twins` is the chance that a dispatcher meets another with the same token before its end."""

    def __init__(
        self,
        seed: int,
        *,
        containers: int,
        restarts: int = 3,
        twins: float = 0.5,
        troubles: Troubles | None = None,
        settings: CloudSettings = SETTINGS,
        faults: Faults | None = None,
    ) -> None:
        self.random = Random(seed)
        given = faults or Faults(refuse=0.05, forget=0.05, hang=0.005, lag=2.0, slow=20)
        self.server = FakeContainers(seed=seed, faults=given, attempts=10**6)
        self.cloud = FakeCloud(
            seed=seed, troubles=troubles or worst(seed), work=self.supervise, gone=self.server.abandon
        )
        self.settings = settings
        self.containers = containers
        self.restarts = restarts
        self.twins = twins
        self.fleet: CloudFleet | None = None
        self.started = 0
        """Supervisors that came as far as to work."""

    async def supervise(self, told: Mapping[str, Any]) -> None:
        """What a supervisor does."""
        uuid, token = str(told["container_uuid"]), str(told["supervisor_token"])
        self.started += 1
        self.server.run(uuid, token)
        await asyncio.sleep(self.random.uniform(0.1, 60.0))
        if self.random.random() < self.cloud.troubles.crash_before:
            raise Crashed
        await asyncio.sleep(self.random.uniform(0.1, 60.0))
        self.server.finish(uuid, token)

    async def play(self) -> Outcome:
        """Until all is over. Raises AssertionError."""
        loop = asyncio.get_running_loop()
        self.cloud.foreign("i-foreign")
        coming = asyncio.create_task(self._come(), name="containers")
        for _ in range(self.restarts):
            dispatcher = asyncio.create_task(self._dispatch(), name="dispatcher")
            await asyncio.wait((dispatcher,), timeout=self.random.uniform(1.0, 400.0))
            if self.random.random() < self.twins:
                twin = asyncio.create_task(self._dispatch(), name="another dispatcher")
                await asyncio.wait((dispatcher, twin), timeout=self.random.uniform(1.0, 100.0))
                await self._end(twin)
            await self._end(dispatcher)
            await asyncio.sleep(self.random.uniform(0.0, 100.0))
        dispatcher = asyncio.create_task(self._dispatch(), name="dispatcher")
        await coming
        self.cloud.troubles.quota = 0
        while not self._over():
            await asyncio.sleep(5.0)
            if dispatcher.done():
                dispatcher.result()
            self._check()
        await self._end(dispatcher)
        self._check()
        return Outcome(
            loop.time(), self.cloud.most, sum(1 for _ in self.cloud.calls), sum(self.server.locks.values()),
            dict(self.cloud.refused),
        )  # fmt: skip

    async def _come(self) -> None:
        for number in range(self.containers):
            self.server.add(
                priority=self.random.randrange(1, 21),
                vcpus=self.random.randrange(1, 9),
                ram=self.random.randrange(1, 4) * GIB,
                scheduling_parameters={"supervisor": number % 17 == 0},
            )
            if self.random.random() < 0.02:
                await asyncio.sleep(self.random.uniform(0.0, 200.0))
                self.cloud.troubles.quota = self.random.choice((0, 3, 20, 200))

    async def _dispatch(self) -> None:
        clock, prefix = asyncio.get_running_loop().time, f"vm{self.random.randrange(1000)}-"
        self.fleet = CloudFleet(self.settings, self.cloud, self.cloud.reach, clock=clock, prefix=prefix)
        await dispatch(self.server, self.fleet, settings=SELDOM)

    async def _end(self, dispatcher: asyncio.Task[None]) -> None:
        dispatcher.cancel()
        done = await asyncio.gather(dispatcher, return_exceptions=True)
        fault = done[0]
        if isinstance(fault, BaseException) and not isinstance(fault, asyncio.CancelledError):
            raise fault

    def _over(self) -> bool:
        return set(self.cloud.vms) == {"i-foreign"} and all(
            self.server.state(uuid) in FINAL for uuid in self.server.records
        )

    def _check(self) -> None:
        assert "i-foreign" in self.cloud.vms
        if self.cloud.faults:
            raise self.cloud.faults[0]


async def dispatch(server: FakeContainers, fleet: CloudFleet, *, settings: Settings = LOOP) -> None:
    """A dispatcher of `server` with a fleet, until cancelled."""
    client, clock = ApiClient(server, "secret", retry=NO_RETRY), asyncio.get_running_loop().time
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fleet.serve())
        tasks.create_task(run(client, fleet, settings, events=server.events(), clock=clock))


def main() -> int:
    """Play; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lading.testing.cloud_drama", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--containers", type=int, default=2000)
    parser.add_argument("--replay", type=int)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    if given.replay is not None:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        seeds = range(given.replay, given.replay + 1)
    failed = 0
    for seed in seeds:
        began = time.process_time()
        try:
            outcome = play(Drama(seed, containers=given.containers).play())
        except AssertionError as fault:
            failed += 1
            sys.stdout.write(f"seed {seed}: {fault} (again: --replay {seed} --containers {given.containers})\n")
            continue
        sys.stdout.write(
            f"seed {seed}: {given.containers} containers over after {outcome.seconds:.0f} s of its time, at most "
            f"{outcome.most} VMs, {outcome.locks} locks, refused {outcome.refused or 'nothing'}; "
            f"{time.process_time() - began:.1f} s\n"
        )
        sys.stdout.flush()
    sys.stdout.write(f"{len(seeds)} seeds, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
