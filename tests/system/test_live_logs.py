"""What a command writes, while it runs and afterwards, in two attempts: `logs -f`, ranges and
server-sent events.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.reality import need_program, need_root
from tests.system.cluster import LADING, Cluster, processes_naming, running_cluster
from tests.system.desk import Desk, desk_of

pytestmark = pytest.mark.system
PATIENCE = 180.0
# Each attempt writes what the other one cannot.
SCRIPT = "echo attempt $(cat /proc/sys/kernel/random/uuid); exec sleep 600"


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_root()
    for program in ("crun", "curl"):
        need_program(program)
    config = "Containers: {StopGracePeriod: 500ms, LogUpdatePeriod: 100ms}\n"
    with running_cluster(tmp_path_factory.mktemp("logs") / "data", config) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "cat", "sleep")
        yield running


@pytest.fixture
async def desk(cluster: Cluster) -> AsyncIterator[Desk]:
    async with desk_of(cluster) as made:
        yield made


class Log:
    """Standard output in the log of one container, over HTTP."""

    def __init__(self, cluster: Cluster, request: str, container: str) -> None:
        token = cluster.environment["ARVADOS_API_TOKEN"]
        path = f"arvados/v1/container_requests/{request}/log/{container}/stdout.txt"
        self.command = ["curl", "-skN", "-m", str(PATIENCE), "-H", f"Authorization: Bearer {token}",
                        f"https://{cluster.address}/{path}"]  # fmt: skip

    def get(self, *more: str) -> tuple[int, str]:
        """Status and body."""
        done = subprocess.run(
            [*self.command, "-w", "\n%{http_code}", *more], capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body


async def test_two_attempts(cluster: Cluster, desk: Desk) -> None:
    uuid = await desk.submit(SCRIPT, container_count_max=2)
    first = (await desk.until(uuid, "Running"))["uuid"]
    log = Log(cluster, uuid, first)
    pipe = subprocess.PIPE
    following = subprocess.Popen(
        [LADING, "request", "logs", "-f", uuid], env=cluster.environment, stdout=pipe, text=True
    )
    events = subprocess.Popen(
        [*log.command, "-H", "Accept: text/event-stream"], stdout=pipe, text=True
    )
    whole = await until_written(log)
    assert following.stdout is not None
    early = await asyncio.wait_for(asyncio.to_thread(following.stdout.readline), PATIENCE)
    assert await asyncio.to_thread(log.get, "-r", "0-9") == (206, whole[:10])
    assert await asyncio.to_thread(log.get, "-r", "-5") == (206, whole[-5:])
    # The program that keeps the container: its end is a fault of the machine.
    (keeper,) = processes_naming(f"{first}/container.jsonl")
    os.kill(keeper, signal.SIGKILL)
    while (second := (await desk.container(uuid))["uuid"]) == first:
        await asyncio.sleep(0.05)
    await desk.until(uuid, "Running")
    again = await until_written(Log(cluster, uuid, second))
    await desk.cancel(uuid)
    await desk.until(uuid, "Cancelled")
    shown, _ = await asyncio.to_thread(following.communicate, timeout=PATIENCE)
    said, _ = await asyncio.to_thread(events.communicate, timeout=PATIENCE)
    names = [text.partition("attempt ")[2].strip() for text in (whole, again)]
    assert names[0] != names[1]
    assert re.findall(r"attempt (.*)", early + shown) == names
    assert re.findall(r"data: .* attempt (.*)", said) == names
    assert f"event: attempt\ndata: {second}\n" in said
    assert "event: end\ndata: Cancelled\n" in said
    # What was saved is what was live, in parts as well.
    saved = Log(cluster, uuid, second)
    assert await asyncio.to_thread(saved.get) == (200, again)
    assert await asyncio.to_thread(saved.get, "-r", "0-9") == (206, again[:10])


async def until_written(log: Log) -> str:
    """The text once there is a line."""
    while not (got := await asyncio.to_thread(log.get))[1].endswith("\n"):
        await asyncio.sleep(0.05)
    assert got[0] == 200
    return got[1]
