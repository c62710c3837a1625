"""`python -m tests.simulation.cloud_scenario --seeds N`: fleets of fake VMs under every trouble at
once, in made-up time.

For each seed containers come in waves, the quota changes, dispatchers are ended at any moment and
others take over, or are there at the same time: with the same token by mistake, with tokens and VMs
of their own in every other seed. What must hold: no container ever has two supervisors, each ends
once, nobody else's VM is ever touched, in the end there is no VM left, and what `cloud_invariants`
says. `--replay SEED` plays one again with its log, exactly.

`--soak` plays one with 20,000 containers too, its time in steps of half a second, `--exits N` what
`cloud_exits` sees. Plays are shared between the processors.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.core.containers.container import ContainerState
from lading.core.errors import LadingError
from lading.core.resources import GIB, Resources
from lading.core.resources import machine_share as share
from lading.core.scheduling.cloud_limits import Limits
from lading.core.scheduling.instance_lifecycle import InstanceTimes
from lading.core.scheduling.instance_types import InstanceType, with_preemptible
from lading.dispatch.fleet import StartRequest
from lading.dispatch.fleets.cloud.cloud_fleet import CloudFleet
from lading.dispatch.fleets.cloud.settings import CloudSettings
from lading.dispatch.fleets.cloud.spot_losses import SpotLosses
from lading.dispatch.run import run
from lading.dispatch.settings import API_TIMEOUT, DispatchSettings
from lading.testing.cloud import FakeCloud
from lading.testing.cloud_troubles import Crashed, Troubles
from lading.testing.containers import FakeContainers, Faults
from lading.testing.simulated_loop import play
from tests.simulation.cloud_exits import tell_exits
from tests.simulation.cloud_invariants import Referee
from tests.simulation.cloud_spot import SpotRequests, wall_time

FINAL = (ContainerState.COMPLETE, ContainerState.CANCELLED)
TYPES = with_preemptible(
    (
        InstanceType(
            name=f"type{n}",
            provider_type=f"provider{n}",
            resources=Resources(n, 4 * n * GIB),
            price=n * 0.1,
        )
        for n in (1, 2, 3, 4, 6, 8, 16)
    ),
    0.3,
)
SETTINGS = CloudSettings(
    types=TYPES,
    set_id="set",
    limits=Limits(most=200),
    times=InstanceTimes(idle=60.0, booting=300.0, probe=120.0),
    probe_interval=10.0,
    probe_rate=1000.0,
    sync_interval=30.0,
    operation_rate=500.0,
    operation_timeout=30.0,
    shutdown_timeout=10.0,
)
LOOP = DispatchSettings(
    poll_interval=20.0, kill_interval=5.0, kill_patience=60.0, twin_patience=30.0
)
SELDOM = replace(LOOP, window=300, status_interval=30.0)
"""For long plays: fewer are looked at, and told less often why they wait."""


TICK = 0.5
"""Seconds of a step of the time of a soak."""
STEPS = ("Running", "progress", "log", "output", "Complete")
"""What a supervisor writes to its record; it may crash before each of them."""
SECRETS = ("secret", "another")


def worst(seed: int) -> Troubles:
    """Troubles of all kinds, more or less of each by the seed; every sixth has creations and
    removals fail half the time, the others less in steps of a tenth.
    """
    draw = Random(f"troubles {seed}")

    def some(most: float) -> float:
        return draw.choice((0.0, most / 4, most / 2, most))

    fails = (5 - seed % 6) / 10
    return Troubles(
        create_fails=fails, create_pretends=some(0.2), destroy_fails=fails, list_fails=some(0.3),
        tag_fails=some(0.3), hangs=some(0.05), missing=some(0.2), doubled=some(0.1),
        quota=draw.choice((0, 5, 10, 200)),
        gap=draw.choice((0.0, 0.0, 3.0)), scarce=frozenset(draw.choice(((), ("provider6",)))),
        never_boots=some(0.2), dies=some(0.3), breaks=some(0.2), taken=some(0.3),
        loses_link=some(0.05), freezes=some(0.02), mute=some(0.05),
        crash_before=some(0.25), crash_after=some(0.25), stuck=some(0.25), lag=some(20.0),
        impostor=some(0.1), slow_copy=some(30.0), late_tags=some(60.0),
    )  # fmt: skip


def faulty(seed: int) -> Faults:
    """Faults of the API: up to a tenth of all answers are 503."""
    draw = Random(f"faults {seed}")
    refuse = draw.choice((0.0, 0.02, 0.05))
    return Faults(
        refuse=refuse,
        forget=refuse,
        hang=draw.choice((0.0, 0.005)),
        lag=draw.choice((0.2, 2.0)),
        slow=20,
    )


@dataclass(slots=True)
class Outcome:
    """What a drama came to: seconds of its own time, VMs at once and in all, locks, and those for a
    further time.

    `passed`: the longest from the first to the last time that one was passed by others that need
    the same; `idle`: the longest that nothing ran on a VM, in seconds. `price` of the VMs, and what
    their containers have `cost`, in dollars. `spot`: where containers that prefer spot VMs ran.
    """

    seconds: float
    most: int
    made: int
    locks: int
    relocks: int
    passed: float
    idle: float
    price: float
    cost: float
    spot: str
    refused: Mapping[str, int]


class Drama:
    """One play of a seed. `twins` is the chance that a dispatcher meets another with the same token
    before its end.

    `tokens` is how many dispatchers there are with a token each, and VMs of their own. The
    containers come in about so many `waves`.
    """

    def __init__(
        self,
        seed: int,
        *,
        containers: int,
        restarts: int = 3,
        twins: float = 0.5,
        tokens: int = 1,
        waves: int = 40,
        troubles: Troubles | None = None,
        settings: CloudSettings = SETTINGS,
        faults: Faults | None = None,
    ) -> None:
        self.random = Random(seed)
        self.referee = Referee(lambda uuid: self.server.records[uuid])
        self.server = FakeContainers(
            seed=seed, faults=faults or faulty(seed), attempts=10**6, watch=self
        )
        self.spot = SpotRequests(self.server, Random(f"spot {seed}"))
        self._losses: dict[str, SpotLosses] = {}
        self.server.tokens = {secret: f"zzzzz-gj3su-{secret:0>15}" for secret in SECRETS[:tokens]}
        self.cloud = FakeCloud(
            seed=seed, troubles=troubles or worst(seed), work=self.supervise,
            gone=self.server.abandon, lost=self.referee.lost, pays=self._pays,
        )  # fmt: skip
        self.settings = settings
        self.containers = containers
        self.restarts = restarts
        self.twins = twins
        self.waves = waves

    def unheard(self, uuid: str) -> None:
        """A lock whose answer was lost."""
        self.referee.unheard(uuid)

    def moved(self, uuid: str, old: str, new: ContainerState) -> None:
        """A record has another state."""
        self.referee.moved(uuid, old, new)
        self.spot.moved(uuid, new)

    async def supervise(self, told: Mapping[str, Any]) -> None:
        """What a supervisor does."""
        self.spot.started(told)
        uuid, token = str(told["container_uuid"]), str(told["supervisor_token"])
        crash = (
            self.random.choice(STEPS)
            if self.random.random() < self.cloud.troubles.crash_before
            else ""
        )
        for step in STEPS:
            if step == crash:
                raise Crashed
            match step:
                case "Running":
                    self.server.run(uuid, token)
                case "Complete":
                    self.server.finish(uuid, token)
                case _:
                    self.server.save(uuid, token, **{step: "some"})
            if step != "Complete":
                await asyncio.sleep(self.random.uniform(0.1, 30.0))

    async def play(self) -> Outcome:
        """Until all is over. Raises AssertionError."""
        self.cloud.foreign("i-foreign")
        coming = asyncio.create_task(self._come(), name="containers")
        seats = [
            asyncio.create_task(self._seat(secret), name=f"dispatchers of {secret}")
            for secret in self._sets
        ]
        while not (coming.done() and self._over()):
            await asyncio.sleep(5.0)
            self._check(coming, *seats)
        for seat in seats:
            seat.cancel()
        await asyncio.gather(*seats, return_exceptions=True)
        price, cost = self.referee.bill(self.cloud)
        self._check(coming)
        return Outcome(
            seconds=asyncio.get_running_loop().time(), most=self.cloud.most,
            made=len(self.cloud.past), locks=sum(self.server.locks.values()),
            relocks=self.referee.relocks, passed=self.referee.longest_passed,
            idle=self.referee.longest_idle, price=price, cost=cost, spot=self.spot.tally(),
            refused=dict(self.cloud.refused),
        )  # fmt: skip

    async def _come(self) -> None:
        for number in range(self.containers):
            # One in forty is a gang, and most of these are too large for any one VM.
            gang = {"nodes": self.random.randrange(2, 6)} if number % 40 == 7 else {}
            self.server.add(
                priority=self.random.randrange(1, 21),
                vcpus=self.random.randrange(1, 9),
                ram=self.random.randrange(1, 4) * GIB,
                scheduling_parameters={"supervisor": number % 17 == 0} | gang | self.spot.draw(),
            )
            if self.random.random() < self.waves / self.containers:
                await asyncio.sleep(self.random.uniform(0.0, 200.0))
                self.cloud.troubles.quota = self.random.choice((0, 3, 20, 200))
        self.cloud.troubles.quota = 0

    async def _seat(self, secret: str) -> None:
        """The dispatchers of one token, one after the other, now and then two at once."""
        for _ in range(self.restarts):
            dispatcher = asyncio.create_task(self._dispatch(secret), name="dispatcher")
            await asyncio.wait((dispatcher,), timeout=self.random.uniform(1.0, 400.0))
            if self.random.random() < self.twins:
                twin = asyncio.create_task(self._dispatch(secret), name="another dispatcher")
                await asyncio.wait((dispatcher, twin), timeout=self.random.uniform(1.0, 100.0))
                await _end(twin)
            await _end(dispatcher)
            await asyncio.sleep(self.random.uniform(0.0, 100.0))
        await self._dispatch(secret)

    async def _dispatch(self, secret: str) -> None:
        clock, prefix = asyncio.get_running_loop().time, f"vm{self.random.randrange(1000)}-"
        settings = replace(self.settings, set_id=f"set of {secret}")
        driver, token = self.cloud.of_set(settings.set_id), self.server.tokens[secret]
        losses = self._losses.setdefault(secret, SpotLosses(clock=clock, wall=wall_time))
        fleet = _Fleet(
            settings, driver, self.cloud.reach, clock=clock, wall=wall_time, losses=losses,
            prefix=prefix,
        )  # fmt: skip
        fleet.on_failure = lambda uuid, worker: self.referee.failed(uuid, worker, self.cloud)
        self.referee.came(token)
        try:
            await dispatch(self.server, fleet, settings=SELDOM, secret=secret)
        finally:
            self.referee.went(token)

    def _pays(self, told: Mapping[str, Any]) -> float:
        """Dollars an hour, as `supervisor.pricing` has them."""
        size = self.server.records[told["container_uuid"]]["runtime_constraints"]
        kind = told["instance_type"]
        return float(kind["Price"]) * share(kind, vcpus=size["vcpus"], ram=size["ram"])

    @property
    def _sets(self) -> dict[str, str]:
        return self.server.tokens

    def _over(self) -> bool:
        return self.server.quiet and self.spot.quiet and set(self.cloud.vms) == {"i-foreign"}

    def _check(self, *tasks: asyncio.Task[None]) -> None:
        for task in tasks:
            if task.done():
                task.result()
        assert "i-foreign" in self.cloud.vms
        if self.cloud.faults:
            raise self.cloud.faults[0]
        self.referee.look(
            self.cloud, {f"set of {secret}": token for secret, token in self._sets.items()}
        )
        assert not self.referee.verdict, self.referee.verdict
        assert not self.spot.verdict, self.spot.verdict


class _Fleet(CloudFleet):
    """Tells of starts that failed."""

    on_failure: Callable[[str, str], None]

    async def start(self, assignment: StartRequest) -> None:
        """As in use."""
        try:
            await super().start(assignment)
        except LadingError:
            # A gang needs all of its VMs.
            for worker in (assignment.worker, *assignment.others):
                self.on_failure(assignment.uuid, worker)
            raise


async def _end(dispatcher: asyncio.Task[None]) -> None:
    dispatcher.cancel()
    done = await asyncio.gather(dispatcher, return_exceptions=True)
    fault = done[0]
    if isinstance(fault, BaseException) and not isinstance(fault, asyncio.CancelledError):
        raise fault


async def dispatch(
    server: FakeContainers,
    fleet: CloudFleet,
    *,
    settings: DispatchSettings = LOOP,
    secret: str = SECRETS[0],
) -> None:
    """A dispatcher of `server` with a fleet, until cancelled."""
    client, clock = (
        ApiClient(server, secret, timeout=API_TIMEOUT, retry=NO_RETRY),
        asyncio.get_running_loop().time,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fleet.serve())
        tasks.create_task(run(client, fleet, settings, events=server.events(), clock=clock))


def main() -> int:
    """Play; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.cloud_scenario", description=__doc__
    )
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--containers", type=int, default=2000)
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--exits", type=int)
    parser.add_argument("--replay", type=int)
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Else the order of sets, and with it the play, is another one in each process.
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "PYTHONHASHSEED": "0"})
    if given.replay is not None:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        return (
            0
            if _tell(given.replay, *((20_000, TICK) if given.soak else (given.containers, 0.0)))
            else 1
        )
    number = given.seeds if given.seeds is not None else 0 if given.soak or given.exits else 20
    seeds = range(given.first, given.first + number)
    # The longest first: one play takes one processor.
    plays = [partial(_tell, given.first, 20_000, TICK)] if given.soak else []
    plays += [partial(tell_exits, given.exits, seed=given.first)] if given.exits else []
    plays += [partial(_tell, seed, given.containers, 0.0) for seed in seeds]
    with ProcessPoolExecutor(min(len(plays), os.cpu_count() or 1)) as pool:
        failed = sum(not one.result() for one in [pool.submit(play) for play in plays])
    sys.stdout.write(f"{len(plays)} plays, {failed} failed\n")
    return 1 if failed else 0


def _tell(seed: int, containers: int, tick: float) -> bool:
    """Play one, and say how it went; whether it went well."""
    began = time.process_time()
    try:
        # What is due at one moment is looked at together then.
        faults = replace(faulty(seed), slow=0) if tick else None
        one = play(
            Drama(seed, containers=containers, tokens=1 + seed % 2, faults=faults).play(), tick=tick
        )
    except AssertionError as fault:
        how = "--soak" if tick else f"--containers {containers}"
        sys.stdout.write(f"seed {seed}: {fault} (again: --replay {seed} {how})\n")
        return False
    sys.stdout.write(
        f"seed {seed}: {containers} containers over after {one.seconds:.0f} s of its time, "
        f"at most {one.most} of {one.made} VMs, "
        f"{one.locks} locks ({one.relocks} again, each for a cause), "
        f"passed for {one.passed:.0f} s at most, no VM for nothing longer than {one.idle:.0f} s, "
        f"containers paid {one.cost:.2f} of {one.price:.2f} dollars, {one.spot}, "
        f"refused {one.refused or 'nothing'}; {time.process_time() - began:.1f} s\n"
    )
    sys.stdout.flush()
    return True


if __name__ == "__main__":
    sys.exit(main())
