"""A gateway under test: a stub engine whose container waits, and a server that knows, or does not
know, its key.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from lading.core.containers import sessions
from lading.core.protocols import http_head
from lading.core.protocols.http_head import HttpHead
from lading.net.http_upgrade import LIMIT
from lading.net.pipes import Pipe, join, read_head
from lading.supervisor.container_gateway.server import GatewayServer
from lading.supervisor.engines import ContainerSpec, Engine, EngineSettings
from lading.testing.engine import StubEngine

CONTAINER = "zzzzz-dz642-000000000000001"
OTHER = "zzzzz-dz642-000000000000002"
ROOT = "root token"
PATIENCE = 180.0


@dataclass
class Gateway:
    """A gateway and who may call it."""

    server: GatewayServer
    port: int
    engine: Engine
    said: list[str] = field(default_factory=list)
    key: str = sessions.container_key(ROOT, CONTAINER)

    async def connect(self) -> tuple[Pipe, bytes]:
        """A connection, and the certificate that was shown."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        pipe = Pipe(
            *await asyncio.open_connection("127.0.0.1", self.port, ssl=context, limit=LIMIT)
        )
        return pipe, pipe.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)

    async def ask(
        self,
        start: str = "POST /ssh",
        *,
        key: str | None = None,
        uuid: str = CONTAINER,
        proof: str | None = None,
        more: Mapping[str, str] | None = None,
        form: str = "",
    ) -> tuple[Pipe, HttpHead, bytes]:
        """Send a request; the connection, the answer, and the proof that was sent."""
        pipe, certificate = await self.connect()
        proof = proof if proof is not None else sessions.request_proof(key or self.key, certificate)
        fields = {
            "Host": "h", "X-Arvados-Authorization": proof, "X-Arvados-Container-Gateway-Uuid": uuid,
            **(more if more is not None else {"Connection": "upgrade", "Upgrade": "ssh"}),
            **({"Content-Length": str(len(form))} if form else {}),
        }  # fmt: skip
        pipe.writer.write(
            HttpHead(f"{start} HTTP/1.1", tuple(fields.items())).encode() + form.encode()
        )
        return pipe, http_head.parse_answer(await read_head(pipe, timeout=PATIENCE)), proof.encode()

    @asynccontextmanager
    async def ssh(
        self, form: str = "", *, user: str = "root"
    ) -> AsyncIterator[asyncssh.SSHClientConnection]:
        """An SSH connection to it."""
        pipe, answer, _ = await self.ask(form=form)
        assert answer.status == 101, answer
        ours, theirs = socket.socketpair()
        joined = asyncio.create_task(
            join(pipe, Pipe(*await asyncio.open_connection(sock=theirs, limit=LIMIT)))
        )
        try:
            async with asyncio.timeout(PATIENCE):
                async with asyncssh.connect(
                    "gateway",
                    sock=ours,
                    known_hosts=None,
                    username=user,
                    client_keys=None,
                    config=None,
                ) as connection:
                    yield connection
        finally:
            await asyncio.wait_for(joined, PATIENCE)


@asynccontextmanager
async def gateway_of(
    engine: Engine, *, uuid: str = CONTAINER, key: str | None = None
) -> AsyncIterator[Gateway]:
    """A gateway for an engine."""
    said: list[str] = []
    key = key or sessions.container_key(ROOT, uuid)
    server = GatewayServer(uuid, key, engine, said.append)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        await server.start(listening)
        try:
            yield Gateway(server, listening.getsockname()[1], engine, said, key)
        finally:
            await server.close()


@asynccontextmanager
async def stub_running(directory: Path) -> AsyncIterator[StubEngine]:
    """A stub engine whose container waits."""
    engine = StubEngine(
        EngineSettings(
            container_uuid=CONTAINER, run_directory=str(directory), cache_directory=str(directory)
        )
    )
    await engine.create(
        ContainerSpec(command=("sleep", "60"), environment=(("NAME", "of the container"),))
    )
    stop = asyncio.Event()
    running = asyncio.create_task(engine.run(stop=stop, stop_grace=0.1))
    await engine.started.wait()
    try:
        yield engine
    finally:
        stop.set()
        await running
        await engine.remove()
