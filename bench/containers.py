"""Containers from end to end: the floors, latency and throughput of a `lading up` of the
benchmark's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from bench import floors, latency, slurm, throughput
from bench.daemon_floor import DaemonFloor, floor_of
from bench.engines import configured
from bench.figures import Figure
from bench.requests import Watch
from bench.service import add_image, connected, serving


def measure(
    *,
    containers: int,
    samples: int,
    docker_samples: int,
    sbatch_jobs: int,
    with_floors: bool,
    engine: str,
) -> list[Figure]:
    """Figures of `samples` containers one at a time and of many at once, after those of crun,
    docker and sbatch.

    `engine`: one of `engines.ENGINES`. Raises RuntimeError when its daemon does not start.
    """
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        work = Path(folder)
        figures: list[Figure] = []
        if with_floors:
            figures = [
                *floors.measure_crun(work, count=samples),
                floors.measure_docker(work, count=docker_samples),
                slurm.measure_bare(jobs=sbatch_jobs),
            ]
        with configured(engine) as config, serving(work / "data", config=config) as environment:
            return figures + asyncio.run(_lading(environment, containers, samples, engine, config))


async def _lading(
    environment: dict[str, str], containers: int, samples: int, engine: str, config: str
) -> list[Figure]:
    image = await asyncio.to_thread(add_image, environment)
    async with connected(environment) as client, _floor(engine, config) as floor:
        watch = Watch(client)
        following = asyncio.create_task(watch.follow())
        await watch.listening.wait()
        figures = await latency.measure(
            client, watch, image, count=samples, engine=engine, floor=floor
        )
        figures += await throughput.measure(client, watch, image, count=containers, engine=engine)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
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
