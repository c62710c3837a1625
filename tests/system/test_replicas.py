"""Two servers on one database and one block store: both answer everything, and the loss of one
stops neither containers nor the dispatcher.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from lading.client.api import ApiClient
from lading.client.transport import HttpTransport
from tests.postgres import PostgresServer
from tests.reality import need_program, need_root
from tests.s3_service import make_bucket
from tests.system.cluster import Cluster
from tests.system.desk import Desk, desk_of
from tests.system.replicas import Replicas, kill, log_of, running_replicas

pytestmark = pytest.mark.system
LIMIT = 70.0
VOLUME = "zzzzz-nyw5e-000000000000000"
COUNTING = "i=0; while true; do i=$((i+1)); echo line $i; sleep 0.1; done"
SILENT = "echo begun; until test -e /out/end; do sleep 0.2; done"


def volumes_of(kind: str, root: Path) -> dict[str, Any]:
    """The shared block store: a directory, or a bucket of S3."""
    need_root()
    for name in ("crun", "ssh"):
        need_program(name)
    if kind == "S3":
        return {VOLUME: {"Driver": "S3", "DriverParameters": make_bucket().parameters}}
    (root / "blocks").mkdir()
    return {VOLUME: {"DriverParameters": {"Root": f"{root}/blocks"}}}


async def test_a_shell_and_the_growing_log_work_through_either_server(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    volumes = volumes_of("Directory", tmp_path)
    async with (
        running_replicas(tmp_path, await postgres.fresh(), volumes) as site,
        # The supervisor is at `one`.
        desk_of(site.one, limit=LIMIT) as desk,
    ):
        uuid = await desk.submit(SILENT)
        container = await desk.until(uuid, "Running")
        for cluster in (site.one, site.other):
            await look(desk, cluster, uuid, container["uuid"])
        await desk.cancel(uuid)
        await desk.until(uuid, "Cancelled")
        for cluster in (site.one, site.other):
            assert "begun" in await log_of(cluster, uuid, container["uuid"])


@pytest.mark.parametrize("kind", ["Directory", pytest.param("S3", marks=pytest.mark.quick)])
async def test_the_loss_of_a_server_is_made_up_for_by_the_other(
    tmp_path: Path, postgres: PostgresServer, kind: str
) -> None:
    volumes = volumes_of(kind, tmp_path)
    async with (
        running_replicas(tmp_path, await postgres.fresh(), volumes) as site,
        desk_of(site.other, limit=LIMIT) as desk,
    ):
        counting, silent = await desk.submit(COUNTING), await desk.submit(SILENT)
        running = {uuid: (await desk.until(uuid, "Running"))["uuid"] for uuid in (counting, silent)}
        for uuid, container in running.items():
            await look(desk, site.one, uuid, container)
        # It had all tunnels and growing logs, and the connections of the dispatcher.
        kill(site.one)
        for uuid, container in running.items():
            await look(desk, site.other, uuid, container)
        await until_grown(site.other, counting, running[counting], more=20)
        # It has an old part of the logs now.
        site.one.start()
        for uuid, container in running.items():
            await look(desk, site.one, uuid, container)
        await until_grown(site.one, counting, running[counting], more=20)
        await end(desk, site, running, counting, silent)


async def test_the_log_of_a_lost_supervisor_is_saved_by_the_server_that_does_not_have_it(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    volumes = volumes_of("Directory", tmp_path)
    async with (
        running_replicas(tmp_path, await postgres.fresh(), volumes) as site,
        desk_of(site.other, limit=LIMIT) as desk,
    ):
        uuid = await desk.submit("echo begun; sleep 600", container_count_max=1)
        container = (await desk.until(uuid, "Running"))["uuid"]
        await look(desk, site.one, uuid, container)
        # A dispatcher that is at the other server: this one would end the container at the first.
        site.dispatcher.send_signal(signal.SIGSTOP)
        try:
            (lock,) = (tmp_path / "d" / "run").glob("*/lock")
            os.kill(json.loads(lock.read_text())["PID"], signal.SIGKILL)
            transport = HttpTransport(unix_socket=site.other.data / "api.sock")
            async with transport:
                lost = {"state": "Cancelled", "runtime_status": {"error": "it is lost"}}
                await ApiClient(transport, site.token).update("containers", container, lost)
        finally:
            site.dispatcher.send_signal(signal.SIGCONT)
        ended = await desk.client.get("containers", container)
        assert (ended["state"], bool(ended["log"])) == ("Cancelled", True)
        for cluster in (site.one, site.other):
            assert_whole(await log_of(cluster, uuid, container))
        # The dispatcher may have replaced the supervisor, and then ends the container.
        while [*(tmp_path / "d" / "run").glob("*/lock")]:
            await asyncio.sleep(0.1)


async def end(
    desk: Desk, site: Replicas, running: dict[str, str], counting: str, silent: str
) -> None:
    """Each container has begun once, and its saved log and output are whole."""
    await asyncio.to_thread(site.other.lading, "shell", silent, "--", "touch", "/out/end")
    done = await desk.until(silent, "Complete")
    assert (done["exit_code"], bool(done["output"])) == (0, True)
    await desk.cancel(counting)
    await desk.until(counting, "Cancelled")
    later = await desk.submit("echo later")
    assert (await desk.until(later, "Complete"))["exit_code"] == 0
    for uuid, container in running.items():
        assert (await desk.container(uuid))["uuid"] == container
        assert (await states_of(desk, container)).count("Running") == 1
        for cluster in (site.one, site.other):
            assert_whole(await log_of(cluster, uuid, container))


async def look(desk: Desk, cluster: Cluster, request: str, container: str) -> None:
    """The log of a running container from its beginning, and a shell into it, through a server."""
    while not (text := await log_of(cluster, request, container)):
        assert (await desk.container(request))["state"] == "Running"
        await asyncio.sleep(0.2)
    assert_whole(text)
    said = await asyncio.to_thread(
        cluster.lading, "shell", "--wait", request, "--", "sh", "-c", "echo inside"
    )
    assert said.stdout.strip() == "inside"


async def until_grown(cluster: Cluster, request: str, container: str, *, more: int) -> None:
    """Wait until a log has so many further lines."""
    begun = lines_of(await log_of(cluster, request, container))
    while len(lines_of(text := await log_of(cluster, request, container))) < len(begun) + more:
        await asyncio.sleep(0.1)
    assert_whole(text)


def lines_of(text: str) -> list[str]:
    """The whole lines of a log, without their timestamps."""
    return [one.partition(" ")[2] for one in text.split("\n")[:-1]]


def assert_whole(text: str) -> None:
    """A log has all lines from the first one on, each once."""
    lines = lines_of(text)
    expected = [f"line {number}" for number in range(1, len(lines) + 1)]
    assert lines in (["begun"], expected)


async def states_of(desk: Desk, container: str) -> list[str]:
    """The states that a container has had, each as often as it came to it."""
    told = await desk.client.list("logs", filters=[["object_uuid", "=", container]], limit=100)
    changes = [one["properties"].get("new_attributes", {}).get("state") for one in told]
    return [state for state, _ in groupby(one for one in changes if one)]
