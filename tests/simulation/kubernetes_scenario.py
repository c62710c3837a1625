"""A Kubernetes cluster whose API server is mean, with dispatchers that are ended at any moment.

Containers come in waves and some are cancelled; requests fail before and after their effect or have
it late, watches are cut and too old, lists are of a while ago (`lading.testing.kubernetes`);
supervisors crash, Pods are evicted, deleted, or forgotten while they run, kubelets pause; the API
fails too. All in simulated time. Invariants (docs/spec/dispatch, section Invariants): no container
runs twice, each ends once, none is cancelled whose supervisor was well, none is locked again
without a cause, and no Pod or secret is left.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.core.containers.container import ContainerState
from lading.core.errors import LadingError
from lading.dispatch.fleet import StartRequest
from lading.dispatch.fleets.kubernetes.api_client import KubernetesApi
from lading.dispatch.fleets.kubernetes.kubernetes_fleet import KubernetesFleet
from lading.dispatch.fleets.kubernetes.settings import KubernetesSettings
from lading.dispatch.run import run
from lading.testing.containers import TOKEN, FakeContainers
from lading.testing.kubernetes import NAMESPACE, FakeCluster
from tests.kubernetes_clusters import KIND, MEAN, pod_settings
from tests.simulation.cloud_invariants import Referee
from tests.simulation.cloud_scenario import SELDOM, faulty
from tests.simulation.supervisors import cancel, supervise

EMPTY = 3600.0
"""Seconds after the end of the last container within which nothing may be left in the cluster."""
_CANCEL = 0.03


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a play came to: seconds of its time, requests, and containers that are complete."""

    seconds: float
    requests: int
    locks: int
    complete: int


class ClusterDrama:
    """One play of a seed. Of `containers` `slots` at a time run."""

    def __init__(self, seed: int, *, containers: int, restarts: int = 4, slots: int = 20) -> None:
        self.random = Random(seed)
        self.referee = Referee(lambda uuid: self.server.records[uuid], passed=math.inf)
        self.server = FakeContainers(seed=seed, faults=faulty(seed), attempts=10**6, watch=self)
        malice = replace(MEAN, slow=3)
        self.cluster = FakeCluster(
            work=self.supervise, seed=seed, malice=malice, slots=slots, pause=2.0
        )
        self.containers = containers
        self.restarts = restarts
        self.settings = KubernetesSettings(pods=pod_settings(), kinds={KIND.name: KIND})
        self.excused: set[str] = set()
        """Containers that may end without being complete."""
        self.ran: dict[str, int] = {}

    def moved(self, uuid: str, old: str, new: ContainerState) -> None:
        """A record has another state."""
        self.referee.moved(uuid, old, new)

    def unheard(self, uuid: str) -> None:
        """A lock whose answer was lost."""
        self.referee.unheard(uuid)

    async def supervise(self, uuid: str, token: str) -> None:
        """What a supervisor does."""
        await supervise(self.server, self.random, uuid, token, ran=self.ran, lose=self._lose)

    async def play(self) -> Outcome:
        """Until all is over. Raises AssertionError."""
        tasks = [asyncio.create_task(one) for one in (self._come(), self._harm(), self._seat())]
        while not (tasks[0].done() and self._over()):
            await asyncio.sleep(5.0)
            self._check(*tasks)
        async with asyncio.timeout(EMPTY):
            while self.cluster.pods or self.cluster.secrets:
                await asyncio.sleep(5.0)
                self._check(*tasks)
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.cluster.close()
        self._judge()
        states = [self.server.state(uuid) for uuid in self.server.records]
        return Outcome(
            seconds=asyncio.get_running_loop().time(),
            requests=len(self.cluster.calls),
            locks=sum(self.server.locks.values()),
            complete=states.count(ContainerState.COMPLETE),
        )

    async def _come(self) -> None:
        for _ in range(self.containers):
            uuid = self.server.add(priority=self.random.randrange(1, 21))
            if self.random.random() < _CANCEL:
                asyncio.get_running_loop().call_later(
                    self.random.uniform(0.0, 300.0), self._cancel, uuid
                )
            if self.random.random() < 0.2:
                await asyncio.sleep(self.random.uniform(0.0, 60.0))

    def _cancel(self, uuid: str) -> None:
        """As the API does when nobody wants a container any more."""
        self.excused.add(uuid)
        cancel(self.server, uuid)

    async def _harm(self) -> None:
        """Pods are taken away, or seem so; kubelets pause; the API server forgets events."""
        while True:
            await asyncio.sleep(self.random.uniform(0.0, 60.0))
            self.cluster.compact()
            self.cluster.frozen = self.random.random() < 0.3
            self.cluster.pulse.beat()
            running = [one for one in self.cluster.pods.values() if "nodeName" in one["spec"]]
            if not running:
                continue
            pod = self.random.choice(running)
            name = pod["metadata"]["name"]
            self._lose(pod["metadata"]["labels"]["lading/container"])
            match self.random.randrange(3):
                case 0:
                    self.cluster.finish(name, reason="Evicted")
                case 1:
                    self.cluster.remove(name)
                case _:
                    # What runs there goes on, where the cluster does not see it.
                    self.cluster.lose(name)

    def _lose(self, uuid: str) -> None:
        self.excused.add(uuid)
        self.referee.lost(uuid)

    async def _seat(self) -> None:
        """Dispatchers, one after the other."""
        for _ in range(self.restarts):
            dispatcher = asyncio.create_task(self._dispatch(), name="dispatcher")
            await asyncio.wait((dispatcher,), timeout=self.random.uniform(1.0, 300.0))
            dispatcher.cancel()
            (fault,) = await asyncio.gather(dispatcher, return_exceptions=True)
            if isinstance(fault, BaseException) and not isinstance(fault, asyncio.CancelledError):
                raise fault
            await asyncio.sleep(self.random.uniform(0.0, 60.0))
        await self._dispatch()

    async def _dispatch(self) -> None:
        clock = asyncio.get_running_loop().time
        client = ApiClient(self.server, "secret", retry=NO_RETRY)
        api = KubernetesApi(self.cluster, namespace=NAMESPACE)
        self.referee.came(TOKEN)
        try:
            async with ToldFleet(self.settings, api, self._lose) as fleet:
                await run(client, fleet, SELDOM, events=self.server.events(), clock=clock)
        finally:
            self.referee.went(TOKEN)

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
        if self.cluster.faults:
            raise self.cluster.faults[0]
        assert not self.referee.verdict, self.referee.verdict

    def _judge(self) -> None:
        for uuid, times in self.ran.items():
            assert times == 1, f"{uuid} ran {times} times"
        for uuid in self.server.records:
            state = self.server.state(uuid)
            assert state is ContainerState.COMPLETE or uuid in self.excused, (
                f"{uuid} ended {state}, though nothing had happened to it"
            )


class ToldFleet(KubernetesFleet):
    """Tells of starts that failed."""

    def __init__(
        self, settings: KubernetesSettings, api: KubernetesApi, failed: Callable[[str], None]
    ) -> None:
        super().__init__(settings, api)
        self._failed = failed

    async def start(self, request: StartRequest) -> None:
        """As in use."""
        try:
            await super().start(request)
        except LadingError:
            self._failed(request.uuid)
            raise
