"""Everything goes wrong at once, by seed: each container still ends, and none ever runs twice at
the same time.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from lading.core.containers.container import ContainerState
from lading.core.errors import LadingError
from lading.core.resources import GIB, Resources
from lading.core.scheduling.planning import FleetWorker
from lading.dispatch.fleet import StartRequest, SupervisorProcess
from lading.testing.containers import QUICK, FakeContainers, Faults, dispatching
from lading.testing.fleet import FakeFleet, Meanness

WORKERS = (FleetWorker("w1", Resources(8, GIB)), FleetWorker("w2", Resources(4, GIB)))
FINAL = (ContainerState.COMPLETE, ContainerState.CANCELLED)
MEAN = Meanness(refuse=0.1, pretend=0.1, crash=0.25, deaf=0.3, stuck=0.2, slow=5)
FAULTS = Faults(refuse=0.1, forget=0.1, slow=5)
# A lock whose answer is lost counts as that of another dispatcher for so long.
SETTINGS = replace(QUICK, twin_patience=0.05)


class World:
    """A fake server and a fleet whose supervisors run containers on it, with faults at each of
    their steps.
    """

    def __init__(self, seed: int) -> None:
        self.server = FakeContainers(seed=seed, faults=FAULTS, attempts=1000)
        self.fleet = FakeFleet(WORKERS, work=self.supervise, seed=seed, meanness=MEAN)
        self.seed = seed
        self.fleet.on_clean = self.server.abandon

    async def supervise(self, assignment: StartRequest) -> None:
        uuid, token = assignment.uuid, assignment.token
        try:
            self.server.run(uuid, token)
            for _ in range((int(uuid[-4:]) + self.seed) % 20):
                await asyncio.sleep(0)
            if (int(uuid[-4:]) + self.seed) % 7:
                self.server.finish(uuid, token)
        except LadingError:
            return

    def all_ended(self) -> bool:
        return all(self.server.state(uuid) in FINAL for uuid in self.server.records)


@pytest.mark.parametrize("seed", range(8))
async def test_every_container_ends_and_none_runs_twice_at_once(seed: int) -> None:
    world = World(seed)
    uuids = [world.server.add(vcpus=1 + n % 6, priority=1 + n % 20) for n in range(200)]
    async with dispatching(world.server, world.fleet, settings=SETTINGS):
        world.server.interrupt_events()
        for uuid in uuids[::9]:
            world.server.change_priority(uuid, 0)
        await world.server.wait_for(lambda: _done(world, uuids))
        await world.fleet.wait_for(lambda: not world.fleet.processes)
    assert all(world.server.state(uuid) in FINAL for uuid in set(uuids) - set(uuids[::9]))
    await world.fleet.close()


@pytest.mark.parametrize("seed", range(6))
async def test_dispatchers_come_and_go(seed: int) -> None:
    world = World(seed)
    uuids = [world.server.add(vcpus=1 + n % 6) for n in range(40)]
    for turns in (20, 100, 300, 50):
        async with dispatching(world.server, world.fleet, settings=SETTINGS):
            for _ in range(turns):
                await asyncio.sleep(0)
    async with dispatching(world.server, world.fleet, settings=SETTINGS):
        await world.server.wait_for(world.all_ended)
        await world.fleet.wait_for(lambda: not world.fleet.processes)
    assert world.all_ended()
    assert len(uuids) == len(world.server.records)
    await world.fleet.close()


async def test_two_dispatchers_with_one_token_never_run_a_container_twice() -> None:
    """A mistake of the operator; fencing by the token minted at lock time keeps it harmless."""
    world, other = World(1), World(2)
    other.server, other.fleet.on_clean = world.server, world.server.abandon
    for _ in range(20):
        world.server.add()
    async with (
        dispatching(world.server, world.fleet, settings=SETTINGS),
        dispatching(world.server, other.fleet, settings=SETTINGS),
    ):
        await world.server.wait_for(world.all_ended)
    for one in (world, other):
        await one.fleet.close()


async def test_adopted_containers_count_against_the_worker() -> None:
    server = FakeContainers()
    running = server.add(vcpus=4)
    server.hold(running, ContainerState.RUNNING)
    fleet = FakeFleet(
        (FleetWorker("w1", Resources(5, GIB)),), processes={running: SupervisorProcess("w1")}
    )
    async with dispatching(server, fleet):
        small = server.add(vcpus=1)
        large = server.add(vcpus=2)
        await server.until(small, ContainerState.LOCKED)
        await server.until_told("Waiting in queue at position 1")
        assert server.state(large) is ContainerState.QUEUED


def _done(world: World, uuids: list[str]) -> bool:
    wanted = [uuid for uuid in uuids if world.server.records[uuid]["priority"] > 0]
    return all(world.server.state(uuid) in FINAL for uuid in wanted)
