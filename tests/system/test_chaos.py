"""kill -9 of each part at ten seeded moments of a run of 50 containers: nothing lost, nothing run twice at a time."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.retry import RetryPolicy
from lading.client.transport import HttpTransport
from lading.core import manifest
from tests.system.cluster import Cluster, is_alive, running_cluster

pytestmark = pytest.mark.system
CONTAINERS, KILLS = 50, 10
# What only the containers of this run sleep: the observer counts processes by it.
MARK = f"0.36{os.getpid():07d}"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path / "data") as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat")
        yield running


@asynccontextmanager
async def _client(cluster: Cluster) -> AsyncIterator[tuple[ApiClient, BlockClient]]:
    token = cluster.environment["ARVADOS_API_TOKEN"]
    transport = HttpTransport(unix_socket=cluster.data / "api.sock")
    try:
        # A server that is killed again and again while it starts is away for longer than the usual patience.
        patience = RetryPolicy(attempts=1000, cap=1.0, give_up_after=200.0)
        yield ApiClient(transport, token, retry=patience), BlockClient(transport, token, retry=patience)
    finally:
        await transport.close()


def _request(number: int) -> dict[str, object]:
    script = f"echo begin {number}; echo {number} >/out/number; exec sleep {MARK}{number:03d}"
    return {
        "name": f"chaos {number}",
        "state": "Committed",
        "priority": 500,
        "container_image": "tools:1",
        "command": ["sh", "-ec", script],
        "cwd": "/out",
        "output_path": "/out",
        "mounts": {"/out": {"kind": "tmp", "capacity": 1 << 20}},
        "runtime_constraints": {"vcpus": 1, "ram": 64 << 20},
        "container_count_max": 5,
        "use_existing": False,
    }


async def _watch_doubles(doubles: list[str]) -> None:
    """Note every moment at which two live processes carry one request's mark."""
    while True:
        seen: Counter[str] = Counter()
        for path in Path("/proc").iterdir():
            if path.name.isdigit():
                with suppress(OSError):
                    line = (path / "cmdline").read_bytes()
                    if line.startswith(b"sleep\0" + MARK.encode()) and is_alive(int(path.name)):
                        seen[line.decode()] += 1
        doubles += [mark for mark, count in seen.items() if count > 1]
        await asyncio.sleep(0.02)


async def _kill(cluster: Cluster, victim: str, chance: random.Random) -> int:
    killed = 0
    while killed < KILLS:
        await asyncio.sleep(chance.uniform(0.05, 0.9))
        pids = cluster.pids(victim)
        if pids:
            os.kill(chance.choice(pids), signal.SIGKILL)
            killed += 1
    return killed


async def _submit(client: ApiClient) -> list[str]:
    made = []
    for number in range(CONTAINERS):
        made.append((await client.create("container_requests", _request(number)))["uuid"])
        await asyncio.sleep(0.05)
    return made


async def _wait_final(client: ApiClient, uuids: list[str]) -> list[dict[str, object]]:
    while True:
        rows = await client.list("container_requests", filters=[["uuid", "in", uuids]], limit=1000)
        if all(row["state"] == "Final" for row in rows):
            return rows
        await asyncio.sleep(0.25)


async def _check_blocks(client: ApiClient, blocks: BlockClient, rows: list[dict[str, object]]) -> None:
    for row in rows:
        for collection in (row["log_uuid"], row["output_uuid"]):
            assert collection is not None, row
            text = (await client.get("collections", str(collection)))["manifest_text"]
            for locator in manifest.locators(text):
                await blocks.get(locator)


@pytest.mark.parametrize("victim", ["server", "dispatcher", "warm-parent", "supervisor"])
async def test_every_request_ends_whatever_is_killed(cluster: Cluster, victim: str) -> None:
    doubles: list[str] = []
    async with _client(cluster) as (client, blocks), asyncio.timeout(240):
        watcher = asyncio.create_task(_watch_doubles(doubles))
        killer = asyncio.create_task(_kill(cluster, victim, random.Random(victim)))
        uuids = await _submit(client)
        assert await killer == KILLS
        rows = await _wait_final(client, uuids)
        watcher.cancel()
        containers = await client.list(
            "containers", filters=[["uuid", "in", [row["container_uuid"] for row in rows]]], limit=1000
        )
        await _check_blocks(client, blocks, rows)
    assert doubles == []
    assert Counter((row["state"], row["exit_code"]) for row in containers) == {("Complete", 0): CONTAINERS}
    assert await _settled(cluster) == []


async def _settled(cluster: Cluster) -> list[str]:
    """Run directories that are still there once the last supervisors have had time to tidy up."""
    for _ in range(100):
        if not cluster.run_directories():
            break
        await asyncio.sleep(0.1)
    return cluster.run_directories()
