"""`python -m tests.simulation.kubernetes_scenario --seeds N`: a Kubernetes cluster whose API server
is mean, with dispatchers that are ended at any moment.

Containers come in waves and some are cancelled; requests fail before and after their effect or have
it late, watches are cut and too old, lists are of a while ago (`lading.testing.kubernetes`);
supervisors crash, Pods are evicted, deleted, or forgotten while they run, kubelets pause, quotas
refuse Pods; the API fails too. All in simulated time. Invariants (docs/spec/dispatch, section
Invariants): no container runs twice, each ends once, none is cancelled whose supervisor was well,
none is locked again without a cause, no token is in a Pod, no more Pods wait than may, Pods of
another dispatcher are left alone, and no Pod or secret is left.

Then each bug of `kubernetes_bugs` is planted and looked for. `--replay SEED` plays one seed again,
with its log; `--bug` plants a bug in it.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from random import Random

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.core.containers.container import ContainerState
from lading.core.errors import ExecutionError, LadingError
from lading.core.kubernetes.pod_manifest import CONTAINER, DISPATCHER, pod_name
from lading.dispatch.fleet import StartRequest
from lading.dispatch.fleets.kubernetes.api_client import KubernetesApi
from lading.dispatch.fleets.kubernetes.kubernetes_fleet import KubernetesFleet
from lading.dispatch.fleets.kubernetes.settings import KubernetesSettings
from lading.dispatch.run import run
from lading.testing.containers import TOKEN, FakeContainers
from lading.testing.kubernetes import NAMESPACE, FakeCluster
from lading.testing.kubernetes_objects import Malice, Thing
from lading.testing.simulated_loop import play
from tests.kubernetes_clusters import KIND, pod_settings
from tests.simulation.cloud_invariants import Referee
from tests.simulation.cloud_scenario import SELDOM, faulty
from tests.simulation.kubernetes_bugs import Bug, planted
from tests.simulation.supervisors import cancel, supervise

EMPTY = 3600.0
"""Seconds after the end of the last container within which nothing may be left in the cluster."""
LONGEST = 200_000.0
"""Seconds within which a play is over."""
BUG_SEEDS = 60
_CANCEL = 0.03
_MOST_WAITING = 8
_QUOTA = 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=5'
_FOREIGN = "zzzzz-gj3su-000000000000999"
_FOREIGN_UUID = "zzzzz-dz642-000000000000999"


def worst(seed: int) -> Malice:
    """An API server that is mean in all ways, more or less in each by the seed."""
    draw = Random(f"malice {seed}")

    def some(most: float) -> float:
        return draw.choice((0.0, most / 4, most / 2, most))

    return Malice(
        away=some(0.1), mute=some(0.1), late=some(0.1), busy=some(0.3), cut=some(0.1),
        old=some(0.2), stale=some(0.5), slow=3,
    )  # fmt: skip


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
        self.cluster = FakeCluster(
            work=self.supervise, seed=seed, malice=worst(seed), slots=slots, pause=2.0
        )
        self.containers = containers
        self.restarts = restarts
        self.settings = KubernetesSettings(
            pods=pod_settings(), kinds={KIND.name: KIND}, most_waiting=_MOST_WAITING
        )
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
        foreign = self._foreign()
        tasks = [asyncio.create_task(one) for one in (self._come(), self._harm(), self._seat())]
        while not (tasks[0].done() and self._over()):
            await asyncio.sleep(5.0)
            self._check(*tasks)
            assert _now() < LONGEST, f"{self.server.left()} never end"
        # What the fleet leaves is not taken away by others.
        tasks[1].cancel()
        self.cluster.frozen, self.cluster.refusal = False, ""
        self.cluster.pulse.beat()
        await asyncio.wait((tasks[1],))
        until = _now() + EMPTY
        while self.cluster.pods.keys() != {foreign} or self.cluster.secrets.keys() != {foreign}:
            assert _now() < until, f"{[*self.cluster.pods, *self.cluster.secrets]} are left"
            await asyncio.sleep(5.0)
            self._check(tasks[0], tasks[2])
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.cluster.close()
        self._judge()
        states = [self.server.state(uuid) for uuid in self.server.records]
        return Outcome(
            seconds=_now(),
            requests=len(self.cluster.calls),
            locks=sum(self.server.locks.values()),
            complete=states.count(ContainerState.COMPLETE),
        )

    def _foreign(self) -> str:
        """Make a Pod and a secret of another dispatcher; their name."""
        name = pod_name(_FOREIGN_UUID, "0123456789")
        labels = {
            "app.kubernetes.io/managed-by": "lading", "lading/attempt": "0123456789",
            DISPATCHER: _FOREIGN, CONTAINER: _FOREIGN_UUID,
        }  # fmt: skip
        metadata: Thing = {"name": name, "labels": labels, "uid": "foreign"}
        spec = {"containers": [{"name": "supervisor"}], "terminationGracePeriodSeconds": 0}
        self.cluster.pods[name] = {
            "metadata": metadata, "spec": spec, "status": {"phase": "Pending"},
        }  # fmt: skip
        self.cluster.secrets[name] = {"metadata": copy.deepcopy(metadata), "data": {}}
        return name

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
            self.cluster.refusal = _QUOTA if self.random.random() < 0.15 else ""
            self.cluster.pulse.beat()
            running = [one for one in self.cluster.pods.values() if "nodeName" in one["spec"]]
            if not running:
                continue
            pod = self.random.choice(running)
            name = pod["metadata"]["name"]
            self._lose(pod["metadata"]["labels"][CONTAINER])
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

    def _failed(self, uuid: str, error: LadingError) -> None:
        """A start failed. No Pod of a play is wrong in itself."""
        if isinstance(error, ExecutionError):
            self.referee.lost(uuid)
        else:
            self._lose(uuid)

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
            async with ToldFleet(self.settings, api, self._started, self._failed) as fleet:
                await run(client, fleet, SELDOM, events=self.server.events(), clock=clock)
        finally:
            self.referee.went(TOKEN)

    def _started(self, request: StartRequest) -> None:
        """A start is over, whatever came of it."""
        pods = json.dumps(self.cluster.of(request.uuid))
        assert request.token not in pods, f"{request.uuid}: its token is in its Pod"

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
        waiting = [name for name, one in self.cluster.pods.items() if self._waits(name, one)]
        assert len(waiting) <= _MOST_WAITING, f"{len(waiting)} Pods wait"

    def _waits(self, name: str, pod: Thing) -> bool:
        """Whether a Pod of the dispatcher waits, and could run."""
        metadata = pod["metadata"]
        is_whole = name in self.cluster.secrets and "deletionTimestamp" not in metadata
        return (
            is_whole
            and metadata["labels"][DISPATCHER] == TOKEN
            and pod["status"] == {"phase": "Pending"}
        )

    def _judge(self) -> None:
        for uuid, times in self.ran.items():
            assert times == 1, f"{uuid} ran {times} times"
        for uuid in self.server.records:
            state = self.server.state(uuid)
            assert state is ContainerState.COMPLETE or uuid in self.excused, (
                f"{uuid} ended {state}, though nothing had happened to it"
            )


class ToldFleet(KubernetesFleet):
    """Tells of starts that are over, and of those that failed."""

    def __init__(
        self,
        settings: KubernetesSettings,
        api: KubernetesApi,
        started: Callable[[StartRequest], None],
        failed: Callable[[str, LadingError], None],
    ) -> None:
        super().__init__(settings, api)
        self._started = started
        self._failed = failed

    async def start(self, request: StartRequest) -> None:
        """As in use."""
        try:
            await super().start(request)
        except LadingError as error:
            self._failed(request.uuid, error)
            raise
        finally:
            self._started(request)


def _now() -> float:
    return asyncio.get_running_loop().time()


def find(bug: Bug, *, seeds: int = BUG_SEEDS, containers: int = 40) -> tuple[int, str] | None:
    """The first seed in which a planted bug is seen, with the fault; None if none has it."""
    with planted(bug):
        for seed in range(seeds):
            fault = fault_of(seed, containers)
            if fault:
                return seed, fault
    return None


def fault_of(seed: int, containers: int) -> str:
    """What is wrong in a play; "" if it holds."""
    try:
        play(ClusterDrama(seed, containers=containers).play())
    except (AssertionError, LadingError, ExceptionGroup) as fault:
        return " ".join(str(fault).split()) or repr(fault)
    return ""


def main() -> int:
    """Play; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.kubernetes_scenario", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--containers", type=int, default=100)
    parser.add_argument("--replay", type=int)
    parser.add_argument("--bug", type=Bug, choices=list(Bug), help="with --replay: plant this bug")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Else the order of sets, and with it the play, is another one in each process.
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "PYTHONHASHSEED": "0"})
    if given.replay is not None:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        with planted(given.bug):
            fault = fault_of(given.replay, given.containers)
        sys.stdout.write(f"seed {given.replay}: {fault or 'holds'}\n")
        return 1 if fault else 0
    began = time.monotonic()
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        seeds = range(given.first, given.first + given.seeds)
        faults = list(pool.map(partial(fault_of, containers=given.containers), seeds))
        failed = [(seed, fault) for seed, fault in zip(seeds, faults, strict=True) if fault]
        again = f"--containers {given.containers}"
        for seed, fault in failed[:10]:
            sys.stdout.write(f"  seed {seed}: {fault[:300]} (again: --replay {seed} {again})\n")
        sys.stdout.write(
            f"Kubernetes: {given.seeds} plays of {given.containers} containers, {len(failed)}"
            f" failed; {time.monotonic() - began:.0f} s\n"
        )
        missed = 0
        for bug, found in zip(Bug, pool.map(find, Bug), strict=True):
            missed += found is None
            where, fault = (str(found[0]), found[1]) if found else ("NOT FOUND", "")
            sys.stdout.write(f"{bug:26} {where:10} {fault[:90]}\n")
        sys.stdout.write(f"{len(Bug) - missed} of {len(Bug)} planted bugs found\n")
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
