"""A play of containers through a batch system of which three commands in ten fail.

Containers come in waves and some are cancelled; commands fail before and after they have had their
effect, or hang, and looks at the queue show half of its jobs or those of a while ago
(`slurm_faults`); supervisors crash, nodes are lost with their jobs or seem so, a controller forgets
jobs; the API fails too; dispatchers are ended at any moment, and others take over or are there at
the same time. All in simulated time. Invariants (docs/spec/dispatch, section Invariants): no
container ever runs twice, each ends once, none is cancelled whose supervisor was well, none is
locked again without a cause, and no job is left.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.core.containers.container import ContainerState
from lading.core.errors import LadingError
from lading.dispatch.fleet import StartRequest
from lading.dispatch.fleets.batch.batch_fleet import BatchFleet
from lading.dispatch.run import run
from lading.testing.containers import TOKEN, FakeContainers
from tests.simulation.cloud_invariants import Referee
from tests.simulation.cloud_scenario import SELDOM, faulty
from tests.simulation.slurm_faults import Unreliable
from tests.simulation.supervisors import Crashed, cancel, supervise

EMPTY = 600.0
"""Seconds after the end of the last container within which the queue must have no job any more."""
_CANCEL = 0.03
_ILL = 60.0
"""Seconds for which a start may fail because some command has."""


@dataclass(slots=True)
class Outcome:
    """What a drama came to: seconds of its own time, commands, those of them that failed, and
    untrue answers.

    `locks`, those for a further time, and the `most` for one container; how many containers were
    `complete`, and how many jobs there were.
    """

    seconds: float
    commands: int
    failed: int
    lies: int
    locks: int
    relocks: int
    most: int
    complete: int
    jobs: int


class BatchDrama(ABC):
    """One play of a seed. The `containers` come in about `waves` waves."""

    def __init__(
        self,
        seed: int,
        *,
        containers: int,
        restarts: int = 4,
        twins: float = 0.3,
        waves: int = 20,
    ) -> None:
        self.random = Random(seed)
        self.referee = Referee(lambda uuid: self.server.records[uuid], passed=math.inf)
        self.server = FakeContainers(seed=seed, faults=faulty(seed), attempts=10**6, watch=self)
        self.programs: list[Unreliable] = []
        """Those of each dispatcher."""
        self.containers = containers
        self.restarts = restarts
        self.twins = twins
        self.waves = waves
        self.excused: set[str] = set()
        """Containers that may end without being complete."""
        self.ran: dict[str, int] = {}
        self._faults: list[AssertionError] = []
        self._there = 0

    @abstractmethod
    def alive(self) -> Sized:
        """The jobs that have not ended."""

    @abstractmethod
    def job_count(self) -> int:
        """How many jobs there were."""

    @abstractmethod
    def harm_one(self) -> None:
        """Lose a running job, if there is one, or have it seem lost."""

    @abstractmethod
    def bad_programs(self, *, seed: int) -> Unreliable:
        """The programs of one dispatcher."""

    @abstractmethod
    def fleet(self, programs: Unreliable) -> BatchFleet:
        """The fleet of one dispatcher."""

    def moved(self, uuid: str, old: str, new: ContainerState) -> None:
        """A record has another state. Of two dispatchers with one token each may undo what it sees
        no reason for.
        """
        self.referee.moved(uuid, old, new)
        if new is ContainerState.CANCELLED and self._there > 1:
            self.excused.add(uuid)

    def unheard(self, uuid: str) -> None:
        """A lock whose answer was lost."""
        self.referee.unheard(uuid)

    async def supervise(self, uuid: str, token: str) -> None:
        """What a supervisor does."""
        try:
            await supervise(self.server, self.random, uuid, token, ran=self.ran, lose=self.lose)
        except AssertionError as fault:
            self._faults.append(fault)
        except Crashed:
            pass

    async def play(self) -> Outcome:
        """Until all is over. Raises AssertionError."""
        tasks = [asyncio.create_task(one) for one in (self._come(), self._harm(), self._seat())]
        coming = tasks[0]
        while not (coming.done() and self._over()):
            await asyncio.sleep(5.0)
            self._check(*tasks)
        async with asyncio.timeout(EMPTY):
            while self.alive():
                await asyncio.sleep(5.0)
                self._check(*tasks)
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.judge()
        return Outcome(
            seconds=asyncio.get_running_loop().time(),
            commands=sum(one.commands for one in self.programs),
            failed=sum(one.failed for one in self.programs),
            lies=sum(one.lies for one in self.programs),
            locks=sum(self.server.locks.values()), relocks=self.referee.relocks,
            most=max(self.server.locks.values()),
            complete=sum(
                self.server.state(uuid) is ContainerState.COMPLETE for uuid in self.server.records
            ),
            jobs=self.job_count(),
        )  # fmt: skip

    async def _come(self) -> None:
        for _ in range(self.containers):
            uuid = self.server.add(
                priority=self.random.randrange(1, 21), vcpus=self.random.choice((1, 1, 2, 4))
            )
            if self.random.random() < _CANCEL:
                asyncio.get_running_loop().call_later(
                    self.random.uniform(0.0, 300.0), self._cancel, uuid
                )
            if self.random.random() < self.waves / self.containers:
                await asyncio.sleep(self.random.uniform(0.0, 100.0))

    def _cancel(self, uuid: str) -> None:
        """As the API does when nobody wants a container any more."""
        self.excused.add(uuid)
        cancel(self.server, uuid)

    async def _harm(self) -> None:
        """Nodes are lost, or seem so; the controller forgets."""
        while True:
            await asyncio.sleep(self.random.uniform(0.0, 20.0))
            self.harm_one()

    def lose(self, uuid: str) -> None:
        """A container may end without being complete."""
        self.excused.add(uuid)
        self.referee.lost(uuid)

    def _excuse(self, uuid: str) -> None:
        """A start has failed."""
        if max(one.failed_at for one in self.programs) > asyncio.get_running_loop().time() - _ILL:
            self.referee.lost(uuid)

    async def _seat(self) -> None:
        """Dispatchers, one after the other, now and then two at once."""
        for _ in range(self.restarts):
            dispatcher = asyncio.create_task(self._dispatch(), name="dispatcher")
            await asyncio.wait((dispatcher,), timeout=self.random.uniform(1.0, 300.0))
            if self.random.random() < self.twins:
                twin = asyncio.create_task(self._dispatch(), name="another dispatcher")
                await asyncio.wait((dispatcher, twin), timeout=self.random.uniform(1.0, 100.0))
                await _end(twin)
            await _end(dispatcher)
            await asyncio.sleep(self.random.uniform(0.0, 60.0))
        await self._dispatch()

    async def _dispatch(self) -> None:
        client, clock = (
            ApiClient(self.server, "secret", retry=NO_RETRY),
            asyncio.get_running_loop().time,
        )
        programs = self.bad_programs(seed=self.random.randrange(1 << 30))
        self.programs.append(programs)
        self.referee.came(TOKEN)
        self._there += 1
        try:
            async with watched(self.fleet(programs), self._excuse) as fleet:
                await run(client, fleet, SELDOM, events=self.server.events(), clock=clock)
        finally:
            self.referee.went(TOKEN)
            self._there -= 1

    def _over(self) -> bool:
        """Whether all have ended, or wait and are not wanted."""
        return all(
            self.server.state(uuid) is ContainerState.QUEUED
            and not self.server.records[uuid]["priority"]
            for uuid in self.server.left()
        )

    def _check(self, *tasks: asyncio.Task[None]) -> None:
        for task in tasks:
            if task.done():
                task.result()
        if self._faults:
            raise self._faults[0]
        assert not self.referee.verdict, self.referee.verdict

    def judge(self) -> None:
        """Raise AssertionError for the first fault in what has become of the containers."""
        for fault in self._find():
            raise AssertionError(fault)

    def _find(self) -> Iterator[str]:
        """What is wrong in the end."""
        yield from (f"{uuid} ran {times} times" for uuid, times in self.ran.items() if times > 1)
        for uuid in self.server.records:
            if self.server.state(uuid) is not ContainerState.COMPLETE and uuid not in self.excused:
                yield f"{uuid} ended {self.server.state(uuid)}, though nothing had happened to it"
            if self.server.state(uuid) is ContainerState.COMPLETE and uuid not in self.ran:
                yield f"{uuid} is complete and never ran"


@asynccontextmanager
async def watched(
    fleet: BatchFleet, on_failure: Callable[[str], None]
) -> AsyncIterator[BatchFleet]:
    """A fleet that tells of starts that failed."""
    submit = fleet.start

    async def start(assignment: StartRequest) -> None:
        try:
            await submit(assignment)
        except LadingError:
            on_failure(assignment.uuid)
            raise

    async with fleet:
        fleet.start = start  # type: ignore[method-assign]
        yield fleet


async def _end(dispatcher: asyncio.Task[None]) -> None:
    dispatcher.cancel()
    (fault,) = await asyncio.gather(dispatcher, return_exceptions=True)
    if isinstance(fault, BaseException) and not isinstance(fault, asyncio.CancelledError):
        raise fault
