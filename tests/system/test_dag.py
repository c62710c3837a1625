"""A graph of 1,000 steps in layers, submitted by one call of a client that leaves at once, while
the server and the dispatcher are killed: every step runs exactly once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.system.chaos.load import Load, killer, persist, rage
from tests.system.chaos.sites import loaded
from tests.system.cluster import running_cluster

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(1800)]
LAYERS, WIDTH, INPUTS = 20, 50, 3
STEPS = LAYERS * WIDTH
CONFIG = "Local: {VCPUs: 8, RAM: 4GiB}\n"
KILLS = 12
# The client is a process of its own, which submits and ends.
CLIENT = """
import asyncio, json, sys, time
from pathlib import Path
from lading.client.api import ApiClient
from lading.client.transport import HttpTransport

async def submit(socket, token, requests):
    async with HttpTransport(unix_socket=Path(socket)) as transport:
        began = time.monotonic()
        answer = await ApiClient(transport, token).action(
            "container_requests", None, "batch", body={"container_requests": requests}
        )
        return time.monotonic() - began, [one["uuid"] for one in answer["items"]]

print(json.dumps(asyncio.run(submit(sys.argv[1], sys.argv[2], json.load(sys.stdin)))))
"""


def sources(number: int) -> list[int]:
    """The steps of the layer before whose outputs a step mounts."""
    layer, place = divmod(number, WIDTH)
    if not layer:
        return []
    return [(layer - 1) * WIDTH + (place + 7 * one) % WIDTH for one in range(INPUTS)]


def step(number: int) -> dict[str, object]:
    """The request of a step: the digest of its number and its inputs."""
    inputs = {
        f"/in/{place}": {"kind": "output", "container_request": f"#{source}", "path": "digest"}
        for place, source in enumerate(sources(number))
    }
    files = " ".join(inputs)
    return {
        "name": f"step {number}",
        "state": "Committed",
        "priority": 500,
        "container_image": "tools:1",
        "command": ["sh", "-ec", f"{{ echo {number}; cat {files} </dev/null; }} | md5sum >digest"],
        "cwd": "/out",
        "output_path": "/out",
        "mounts": {"/out": {"kind": "tmp", "capacity": 1 << 20}, **inputs},
        "runtime_constraints": {"vcpus": 1, "ram": 64 << 20},
    }


def digests() -> list[bytes]:
    """What each step writes."""
    made: list[bytes] = []
    for number in range(STEPS):
        text = b"%d\n" % number + b"".join(made[source] for source in sources(number))
        made.append(hashlib.md5(text).hexdigest().encode() + b"  -\n")
    return made


async def test_every_step_of_a_graph_runs_once(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data", CONFIG) as cluster:
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "cat", "md5sum")
        token = cluster.environment["ARVADOS_API_TOKEN"]
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", CLIENT, str(cluster.data / "api.sock"), token],
            input=json.dumps([step(number) for number in range(STEPS)]),
            capture_output=True,
            text=True,
            check=True,
        )
        seconds, uuids = json.loads(done.stdout)
        began, kills, chance = time.monotonic(), Counter[str](), Random("graph")
        strikes = {
            victim: killer(partial(cluster.pids, victim), chance)
            for victim in ("server", "dispatcher")
        }
        async with loaded(cluster, STEPS, pause=0.0) as load, asyncio.timeout(900):
            load.uuids.extend(uuids)
            raging = asyncio.create_task(rage(strikes, chance, period=3.0, done=kills, most=KILLS))
            rows = await load.wait_final()
            raging.cancel()
            containers = await every_container(load)
            texts = [await output(load, row) for row in rows]
        took = time.monotonic() - began
    states = Counter((one["state"], one["exit_code"]) for one in containers)
    print(  # noqa: T201 (what the run shows)
        f"\n{STEPS} steps submitted in {seconds:.2f} s, done {took:.0f} s later; "
        f"killed {dict(kills)}; containers {dict(states)}"
    )
    assert kills.total() > 1
    assert states == {("Complete", 0): STEPS}
    assert {row["container_count"] for row in rows} == {1}
    expected = digests()
    wrong = [
        row["name"]
        for row, text in zip(rows, texts, strict=True)
        if text != expected[int(row["name"].split()[1])]
    ]
    assert wrong == []


async def every_container(load: Load) -> list[dict[str, Any]]:
    """All containers that the server has."""
    found: list[dict[str, Any]] = []

    async def read() -> None:
        found.clear()
        async for page in load.client.pages("containers", select=("state", "exit_code")):
            found.extend(page)

    await persist(read)
    return found


async def output(load: Load, row: dict[str, Any]) -> bytes:
    """The output of a step."""
    record = await persist(lambda: load.client.get("collections", row["output_uuid"]))
    locator = record["manifest_text"].split()[1]
    return bytes(await persist(lambda: load.blocks.get(locator)))
