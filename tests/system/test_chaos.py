"""kill -9 of each part at ten seeded moments of a run of 50 containers: nothing lost, nothing run
twice at a time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.system.chaos.load import killer, rage, watch
from tests.system.chaos.sites import loaded
from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
CONTAINERS, KILLS = 50, 10


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path / "data") as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat")
        yield running


@pytest.mark.parametrize("victim", ["server", "dispatcher", "warm-parent", "supervisor"])
async def test_every_request_ends_whatever_is_killed(cluster: Cluster, victim: str) -> None:
    doubles, kills, chance = list[str](), Counter[str](), Random(victim)
    strikes = {victim: killer(lambda: cluster.pids(victim), chance)}
    async with loaded(cluster, CONTAINERS, pause=0.05) as load, asyncio.timeout(240):
        watching = asyncio.create_task(watch(doubles, [cluster.data / "run"]))
        raging = asyncio.create_task(rage(strikes, chance, period=0.4, done=kills, most=KILLS))
        await load.submit()
        await raging
        rows = await load.wait_final()
        watching.cancel()
        assert await load.check(rows, doubles) == []
    assert (kills, len(rows)) == ({victim: KILLS}, CONTAINERS)
    assert await _settled(cluster) == []


async def _settled(cluster: Cluster) -> list[str]:
    """Run directories that are still there once the last supervisors have had time to tidy up."""
    for _ in range(100):
        if not cluster.run_directories():
            break
        await asyncio.sleep(0.1)
    return cluster.run_directories()
