"""Two servers with a data directory each, as the replicas of deploy/kubernetes-replicas: one
database, one block store, the same secrets and certificate, a balancer before them, and a
dispatcher that knows the address of the balancer only.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lading.client.transport import HttpTransport
from lading.process.concurrency import cancel_all
from tests.system.cluster import LADING, Cluster, running_cluster

SHARED = ("config.yml", "secrets.json", "tls.crt", "tls.key")
"""The files of a data directory that both servers have."""


@dataclass(frozen=True)
class Replicas:
    """The servers, the dispatcher, and its token. `root` has its log and its data directory `d`."""

    root: Path
    one: Cluster
    other: Cluster
    dispatcher: subprocess.Popen[bytes]
    token: str = field(repr=False)


def kill(cluster: Cluster) -> None:
    """Kill the processes of a server, as the end of its node does."""
    assert cluster.process is not None
    assert cluster.process.stdout is not None
    servers = [subprocess.Popen(["kill", "-9", str(pid)]) for pid in cluster.pids("server")]
    cluster.process.send_signal(signal.SIGKILL)
    cluster.process.wait(30)
    cluster.process.stdout.close()
    cluster.process = None
    for one in servers:
        assert one.wait(30) == 0


@asynccontextmanager
async def balanced(addresses: list[str]) -> AsyncIterator[str]:
    """The address of a balancer that keeps its clients, all of one host here, at one server until
    that one cannot be connected to, as `sessionAffinity: ClientIP` does.
    """
    connections = set[asyncio.Task[None]]()
    order = list(addresses)

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
            for address in tuple(order):
                host, _, port = address.partition(":")
                with suppress(OSError):
                    inside, outside = await asyncio.open_connection(host, int(port))
                    ends.append(outside)
                    await asyncio.gather(move(reader, outside), move(inside, writer))
                    return
                # From now on the server after it is the first one to be tried.
                order.remove(address)
                order.append(address)
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
def dispatching(root: Path, join: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A dispatcher on this machine, which reaches the servers by the address in `join`."""
    config = root / "dispatch.yml"
    config.write_text("Containers: {GatewayAddress: tunnel, StopGracePeriod: 300ms}\n")
    command = [
        LADING, "dispatch", "--join", str(join), "--data", str(root / "d"), "--config", str(config),
    ]  # fmt: skip
    with (root / "dispatcher.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


@asynccontextmanager
async def running_replicas(
    root: Path, database: Mapping[str, Any], volumes: Mapping[str, Any]
) -> AsyncIterator[Replicas]:
    """Both servers and the dispatcher, with the image `tools:1`. The balancer prefers `one`."""
    settings = {
        "PostgreSQL": {"Connection": dict(database)},
        "Containers": {"Dispatcher": "none"},
        "Volumes": volumes,
    }
    first, second = root / "a", root / "b"
    with running_cluster(first, yaml.safe_dump(settings)) as one:
        second.mkdir(mode=0o700)
        for name in SHARED:
            shutil.copy(first / name, second / name)
        with running_cluster(second) as other:
            async with balanced([one.address, other.address]) as address:
                tools = ("sh", "sleep", "cat", "touch", "test")
                one.lading("image", "add", "--name", "tools:1", "--from-host", *tools)
                join = root / "join"
                one.lading("admin", "dispatcher-token", str(join), "--data", str(one.data))
                membership = json.loads(join.read_text())
                join.write_text(json.dumps({**membership, "api": f"https://{address}"}))
                with dispatching(root, join) as dispatcher:
                    yield Replicas(root, one, other, dispatcher, membership["token"])


async def log_of(cluster: Cluster, request: str, container: str) -> str:
    """What a server shows of the output of a container; "" while there is nothing."""
    path = f"/arvados/v1/container_requests/{request}/log/{container}/stdout.txt"
    headers = {"Authorization": f"Bearer {cluster.environment['ARVADOS_API_TOKEN']}"}
    async with HttpTransport(unix_socket=cluster.data / "api.sock") as transport:
        answer = await transport.request("GET", path, headers=headers, timeout=30.0)
    return answer.body.decode() if answer.status == 200 else ""
