"""What one server bears: a thousand tunnels with a WebSocket through each, a gigabyte through a
forwarded port.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import resource
import subprocess
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import aiohttp
import pytest

from lading.core.containers import sessions
from lading.supervisor.engines import EngineSettings
from tests.api.container_access.test_published_ports import InsideEngine, container
from tests.reality import need_program, need_root
from tests.supervisor.container_gateway.entering import gateway_of
from tests.system.cluster import LADING, free_address, running_cluster
from tests.system.desk import desk_of
from tests.system.test_forwarding import tunnelled
from tests.system.test_servers import Servers, queue, servers

__all__ = ["servers"]
logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.system, pytest.mark.long]
TUNNELS, AT_ONCE, ROUNDS = 1000, 10, 3
MEMORY = 320 << 20
"""What these may add to the server, in bytes: a third of a mebibyte for each tunnel, with TLS at
both ends.
"""
PORT, PATIENCE = 8000, 180.0
SIZE, PIECE = 1_000_000_000, 1 << 18
SERVE = """
import asyncio, fcntl, socket, struct, sys
from aiohttp import web
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))
async def live(request):
    told = web.WebSocketResponse()
    await told.prepare(request)
    async for message in told:
        await told.send_str(f"{request.path} {message.data}")
    return told
async def main():
    app = web.Application()
    app.router.add_get("/{name}", live)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 8000, backlog=1024).start()
    print("up", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
ECHO = """
import socket
listening = socket.create_server(("127.0.0.1", {port}))
while True:
    one, _ = listening.accept()
    while data := one.recv(1 << 18):
        one.sendall(data)
    one.close()
"""


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """This process is a thousand supervisors and their clients. The server has to see to itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def memory(pid: int) -> int:
    """Bytes that a process has in memory now."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) * 1024


async def test_a_thousand_tunnels_at_once(servers: Servers) -> None:
    """Each container has a tunnel of its own, and a WebSocket through it to its published port: all
    open together.
    """
    client, (server, address) = (
        await servers.client(1),
        (servers.processes[1], servers.addresses[1]),
    )
    before = memory(server.pid)
    uuids, gate = await queue(client, TUNNELS), asyncio.Semaphore(AT_ONCE)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(many_files())
        inside = stack.enter_context(container(SERVE))
        connector = aiohttp.TCPConnector(limit=0, ssl=False)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        headers = {"Authorization": f"Bearer {servers.secrets.admin_token}"}

        async def open_one(uuid: str) -> aiohttp.ClientWebSocketResponse:
            async with gate:
                engine = InsideEngine(
                    EngineSettings(container_uuid=uuid, run_directory="/", cache_directory="/")
                )
                engine.inside = inside
                key = sessions.container_key(servers.secrets.system_root_token, uuid)
                gateway = await stack.enter_async_context(gateway_of(engine, uuid=uuid, key=key))
                await stack.enter_async_context(tunnelled(servers, client, uuid, gateway.port))
                url = f"https://{address}/services/{uuid}-{PORT}/{uuid}"
                async with asyncio.timeout(PATIENCE):
                    while True:
                        try:
                            return await stack.enter_async_context(
                                http.ws_connect(url, headers=headers)
                            )
                        except aiohttp.WSServerHandshakeError as refused:
                            # All the supervisors are in this one process, which may not answer in
                            # time.
                            if refused.status != 503:
                                raise
                        await asyncio.sleep(0.5)

        began = time.monotonic()
        sockets = await asyncio.gather(*(open_one(uuid) for uuid in uuids))
        opened = time.monotonic() - began

        async def echo(uuid: str, socket: aiohttp.ClientWebSocketResponse, number: int) -> None:
            text = f"{number} {os.urandom(500).hex()}"
            await socket.send_str(text)
            async with asyncio.timeout(PATIENCE):
                assert (await socket.receive()).data == f"/{uuid} {text}"

        began = time.monotonic()
        for number in range(ROUNDS):
            await asyncio.gather(
                *(echo(uuid, one, number) for uuid, one in zip(uuids, sockets, strict=True))
            )
        took, grown = time.monotonic() - began, memory(server.pid) - before
        logger.info(f"opened in {opened:.1f} s, echoed in {took / ROUNDS:.2f} s, {grown >> 20} MiB")
        assert grown < MEMORY


async def test_a_gigabyte_through_a_port(tmp_path: Path) -> None:
    """Sent and received at the same time, through OpenSSH, `lading shell`, the server and the
    tunnel.
    """
    need_root()
    for program in ("crun", "ssh"):
        need_program(program)
    config = "Containers: {StopGracePeriod: 500ms, GatewayAddress: tunnel}\n"
    with running_cluster(tmp_path / "data", config) as cluster:
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "python3")
        async with desk_of(cluster, limit=600.0) as desk:
            amounts = {"vcpus": 1, "ram": 256 << 20}
            uuid = await desk.submit(
                f"exec python3 -c '{ECHO.format(port=PORT)}'", runtime_constraints=amounts
            )
            await desk.until(uuid, "Running")
            server = cluster.pids("server")[0]
            port = free_address().rpartition(":")[2]
            command = [LADING, "shell", "--wait", "-N", "-L", f"{port}:localhost:{PORT}", uuid]
            null = subprocess.DEVNULL
            forwarding = subprocess.Popen(
                command, env=cluster.environment, stdin=null, stdout=null, stderr=null
            )
            try:
                async with connection(int(port)) as (reader, writer):
                    before, began = memory(server), time.monotonic()
                    sent, received = await asyncio.gather(send(writer), receive(reader))
                    took, grown = time.monotonic() - began, memory(server) - before
            finally:
                forwarding.terminate()
                await asyncio.to_thread(forwarding.wait, PATIENCE)
            logger.info(f"{SIZE / 1e6 / took:.1f} MB/s each way, {grown >> 20} MiB")
            assert sent == received
            assert grown < MEMORY
            await desk.cancel(uuid)
            await desk.until(uuid, "Cancelled")


@contextlib.asynccontextmanager
async def connection(
    port: int,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """To the port of the container, once something there answers."""
    async with contextlib.AsyncExitStack() as stack:
        async with asyncio.timeout(PATIENCE):
            while not (found := await connect(port, stack)):
                await asyncio.sleep(0.2)
        yield found


async def connect(
    port: int, stack: contextlib.AsyncExitStack
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """A connection that has been answered through; closed with the stack."""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=PIECE)
        stack.callback(writer.close)
        writer.write(b"?")
        if await reader.read(1) == b"?":
            return reader, writer
    return None


async def send(writer: asyncio.StreamWriter) -> str:
    """So many bytes, no two pieces alike; their hash."""
    told, noise = hashlib.sha256(), os.urandom(PIECE)
    for at in range(0, SIZE, PIECE):
        piece = (at.to_bytes(8) + noise)[: min(PIECE, SIZE - at)]
        await asyncio.to_thread(told.update, piece)
        writer.write(piece)
        await writer.drain()
    writer.write_eof()
    return told.hexdigest()


async def receive(reader: asyncio.StreamReader) -> str:
    """The hash of all that comes."""
    told = hashlib.sha256()
    while piece := await reader.read(PIECE):
        await asyncio.to_thread(told.update, piece)
    return told.hexdigest()
