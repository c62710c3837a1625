"""Two servers with a data directory each, as the replicas of deploy/kubernetes-replicas: one
database, one block store, the same secrets and certificate, and a balancer before them.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from lading.client.transport import HttpTransport
from lading.concurrency import cancel_all
from tests.postgres import PostgresServer
from tests.reality import need_program, need_root
from tests.system.cluster import LADING, Cluster, running_cluster
from tests.system.desk import Desk, desk_of

pytestmark = pytest.mark.system
LIMIT = 240.0
SHARED = ("config.yml", "secrets.json", "tls.crt", "tls.key")


@asynccontextmanager
async def balanced(addresses: list[str]) -> AsyncIterator[str]:
    """The address of a balancer that keeps its clients, all of one host here, at the first server
    that can be connected to, as `sessionAffinity: ClientIP` does.
    """

    connections = set[asyncio.Task[None]]()

    async def move(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        ends = [writer]
        try:
            for address in addresses:
                host, _, port = address.partition(":")
                with suppress(OSError):
                    inside, outside = await asyncio.open_connection(host, int(port))
                    ends.append(outside)
                    await asyncio.gather(move(reader, outside), move(inside, writer))
                    return
        finally:
            connections.discard(task)
            for end in ends:
                end.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await cancel_all(*connections)


@contextmanager
def dispatching(root: Path, join: Path) -> Iterator[None]:
    """A dispatcher on this machine, which reaches the servers by the address in `join`."""
    config = root / "dispatch.yml"
    config.write_text("Containers: {GatewayAddress: tunnel, StopGracePeriod: 300ms}\n")
    command = [
        LADING, "dispatch", "--join", str(join), "--data", str(root / "d"), "--config", str(config),
    ]  # fmt: skip
    with (root / "dispatcher.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


async def log_of(cluster: Cluster, request: str, container: str) -> str:
    """What a server shows of the output of a container; "" while there is nothing."""
    path = f"/arvados/v1/container_requests/{request}/log/{container}/stdout.txt"
    headers = {"Authorization": f"Bearer {cluster.environment['ARVADOS_API_TOKEN']}"}
    async with HttpTransport(unix_socket=cluster.data / "api.sock") as transport:
        answer = await transport.request("GET", path, headers=headers, timeout=30.0)
    return answer.body.decode() if answer.status == 200 else ""


async def test_a_shell_and_the_growing_log_work_through_either_server(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    need_root()
    for name in ("crun", "ssh"):
        need_program(name)
    volumes = {"zzzzz-nyw5e-000000000000000": {"DriverParameters": {"Root": f"{tmp_path}/blocks"}}}
    (tmp_path / "blocks").mkdir()
    settings = {
        "PostgreSQL": {"Connection": dict(await postgres.fresh())},
        "Containers": {"Dispatcher": "none"},
        "Volumes": volumes,
    }
    first, second = tmp_path / "a", tmp_path / "b"
    with running_cluster(first, yaml.safe_dump(settings)) as one:
        second.mkdir(mode=0o700)
        for name in SHARED:
            shutil.copy(first / name, second / name)
        with running_cluster(second) as other:
            async with balanced([one.address, other.address]) as address:
                await use(tmp_path, one, other, address)


async def use(root: Path, one: Cluster, other: Cluster, address: str) -> None:
    """A container of a dispatcher that works through the balancer; its supervisor is at `one`."""
    one.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat")
    join = root / "join"
    one.lading("admin", "dispatcher-token", str(join), "--data", str(one.data))
    membership = json.loads(join.read_text())
    join.write_text(json.dumps({**membership, "api": f"https://{address}"}))
    with dispatching(root, join):
        async with desk_of(one, limit=LIMIT) as desk:
            uuid = await desk.submit("echo begun; sleep 600")
            container = await desk.until(uuid, "Running")
            for cluster in (one, other):
                await look(desk, cluster, uuid, container["uuid"])
            await desk.cancel(uuid)
            await desk.until(uuid, "Cancelled")
            for cluster in (one, other):
                assert "begun" in await log_of(cluster, uuid, container["uuid"])


async def look(desk: Desk, cluster: Cluster, request: str, container: str) -> None:
    """The log of a running container, and a shell into it, through one server."""
    while "begun" not in await log_of(cluster, request, container):
        assert (await desk.container(request))["state"] == "Running"
        await asyncio.sleep(0.2)
    said = await asyncio.to_thread(
        cluster.lading, "shell", "--wait", request, "--", "sh", "-c", "echo inside"
    )
    assert said.stdout.strip() == "inside"
