"""Containers from end to end: the floors, latency and throughput of a `lading up` of the benchmark's own."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from bench import floors, latency, slurm, throughput
from bench.figures import Figure
from bench.requests import Watch
from bench.service import add_image, connected, serving


def measure(*, containers: int, samples: int, docker_samples: int, sbatch_jobs: int, with_floors: bool) -> list[Figure]:
    """Figures of `samples` containers one at a time and of many at once, after those of crun, docker and sbatch."""
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        work = Path(folder)
        figures: list[Figure] = []
        if with_floors:
            figures = [
                *floors.measure_crun(work, count=samples),
                floors.measure_docker(work, count=docker_samples),
                slurm.measure_bare(jobs=sbatch_jobs),
            ]
        with serving(work / "data") as environment:
            return figures + asyncio.run(_lading(environment, containers, samples))


async def _lading(environment: dict[str, str], containers: int, samples: int) -> list[Figure]:
    image = await asyncio.to_thread(add_image, environment)
    async with connected(environment) as client:
        watch = Watch(client)
        following = asyncio.create_task(watch.follow())
        await watch.listening.wait()
        figures = await latency.measure(client, watch, image, count=samples)
        figures += await throughput.measure(client, watch, image, count=containers)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return figures
