"""Containers from end to end, in turns with their floors and peers: `crun run` and docker, which
save nothing, sbatch, and HyperQueue with crun.

A `lading up` of the benchmark's own and the daemons of the peers run all the time; in each round
every contender has a burst of no-op containers and some of them one at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from bench import floors, latency, throughput
from bench.daemon_floor import DaemonFloor, floor_of
from bench.engines import configured
from bench.figures import Figure, durations
from bench.hyperqueue import running_hyperqueue
from bench.requests import Watch
from bench.service import add_image, connected, serving
from bench.slurm import bare_slurm
from bench.throughput import Burst
from bench.turns import Entry, Peer, Singles, rate, share, take_turns
from lading.client.api import ApiClient

OF_CRUN, OF_HYPERQUEUE = 55.0, 100.0
"""Percent of the rates of `crun run` and of HyperQueue with crun that is promised."""
_CRUN = "crun run, two at a time"
_HYPERQUEUE = "HyperQueue with crun, two at a time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured: containers of a burst and samples one at a time in each round, and
    those of docker and sbatch, which take longer.
    """

    rounds: int
    containers: int
    samples: int
    docker_samples: int
    sbatch_jobs: int


@dataclass
class _Lading:
    """Lading as a contender, whose bursts are kept."""

    client: ApiClient
    watch: Watch
    image: str
    floor: DaemonFloor | None
    bursts: list[Burst] = field(default_factory=list)

    async def burst(self, count: int) -> float:
        self.bursts.append(await throughput.burst(self.client, self.watch, self.image, count=count))
        return self.bursts[-1].seconds

    async def singles(self, count: int) -> Singles:
        return await latency.singles(
            self.client, self.watch, self.image, count=count, floor=self.floor
        )


def measure(*, sizes: Sizes, with_floors: bool, engine: str) -> list[Figure]:
    """Figures of Lading and, `with_floors`, of its floors and peers in turns with it.

    `engine`: one of `engines.ENGINES`. Raises RuntimeError when its daemon does not start.
    """
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lading-bench-")))
        peers = _peers(stack, work, sizes) if with_floors else []
        config = stack.enter_context(configured(engine))
        environment = stack.enter_context(serving(work / "data", config=config))
        return asyncio.run(_measure(environment, sizes, peers, engine, config))


def _peers(stack: contextlib.ExitStack, work: Path, sizes: Sizes) -> list[Entry]:
    """The peers, started; those that cannot run here say why."""
    crun = Entry("crun run", _CRUN, None, sizes.samples, sizes.containers, "nothing is saved")
    queue = Entry("HyperQueue with crun", _HYPERQUEUE, None, sizes.samples, sizes.containers)
    queue.note = "no journal, no streams: nothing is saved"
    try:
        bundle = floors.make_bundle(work / "bundle")
        crun.contender = Peer(
            lambda count: floors.crun_burst(bundle, count),
            lambda count: floors.crun_singles(bundle, count),
        )
        hyperqueue = stack.enter_context(running_hyperqueue(bundle, work / "hyperqueue"))
        queue.contender = Peer(hyperqueue.burst, lambda count: (hyperqueue.singles(count), []))
    except (RuntimeError, AssertionError) as error:
        (queue if crun.contender else crun).note = str(error)
    docker = Entry("docker run", "", None, sizes.docker_samples, 0, "nothing is saved")
    try:
        command = stack.enter_context(floors.docker_image(work))
        docker.contender = Peer(_none, lambda count: _timed(command, count))
    except RuntimeError as error:
        docker.note = str(error)
    sbatch = Entry("sbatch", "sbatch in a loop", None, sizes.docker_samples, sizes.sbatch_jobs)
    sbatch.note = "no container, nothing is saved"
    try:
        slurm = stack.enter_context(bare_slurm())
        sbatch.contender = Peer(slurm.burst, lambda count: (slurm.singles(count), []))
    except RuntimeError as error:
        sbatch.note = str(error)
    return [crun, queue, docker, sbatch]


def _none(_count: int) -> float:
    raise RuntimeError("there is no burst of this one")


def _timed(command: list[str], count: int) -> Singles:
    pairs = [floors.time_to_date(command) for _ in range(count)]
    return [start for start, _ in pairs], [end for _, end in pairs]


async def _measure(
    environment: dict[str, str], sizes: Sizes, peers: list[Entry], engine: str, config: str
) -> list[Figure]:
    image = await asyncio.to_thread(add_image, environment)
    async with connected(environment) as client, _floor(engine, config) as floor:
        watch = Watch(client)
        following = asyncio.create_task(watch.follow())
        await watch.listening.wait()
        lading = _Lading(client, watch, image, floor)
        ours = Entry("Lading", "Lading", lading, sizes.samples, sizes.containers)
        # Once before the first round: caches, compiled modules, the pool of supervisors.
        for one in (*peers, ours):
            if one.contender is not None:
                await one.contender.singles(1)
        await take_turns([*peers, ours], sizes.rounds)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    figures = [figure for one in peers for figure in one.figures()]
    figures += latency.figures(ours.starts, ours.ends, engine=engine)
    figures += floor.figures(ours.ends) if floor is not None else []
    return figures + _many(ours, lading.bursts, peers, engine)


def _many(ours: Entry, bursts: list[Burst], peers: list[Entry], engine: str) -> list[Figure]:
    """The rows of Lading's bursts, and their shares of those of the peers."""
    # The promises are the native engine's; where there is a daemon it sets the pace.
    has_daemon = engine in latency.END_P50_LIMITS
    submitted = max(one.submitted for one in bursts)
    note = f"all submitted after {submitted:.1f} s; log and output of each read back and right"
    waits = [wait for one in bursts for wait in one.waits]
    figures = [
        rate(
            f"Lading, {ours.burst} no-op containers",
            ours.rates,
            ours.burst,
            note=note,
            least=None if has_daemon else throughput.LEAST,
        ),
        durations(
            f"Queued to Complete, {ours.burst} at once",
            waits,
            note="most of it is waiting in the queue",
        ),
    ]
    promises = {_CRUN: OF_CRUN, _HYPERQUEUE: OF_HYPERQUEUE}
    for one in peers:
        if one.rates and one.many in promises and not has_daemon:
            name = f"Lading, of {one.many}"
            figures.append(share(name, ours.rates, one.rates, least=promises[one.many]))
    return figures


@contextlib.asynccontextmanager
async def _floor(engine: str, config: str) -> AsyncIterator[DaemonFloor | None]:
    """The floor of the daemon that a configuration names, if it names one."""
    socket = (
        json.loads(config or "{}").get("Containers", {}).get(f"{engine.capitalize()}Socket", "")
    )
    if not socket:
        yield None
        return
    async with floor_of(engine, socket=socket, command=latency.COMMAND) as floor:
        yield floor
