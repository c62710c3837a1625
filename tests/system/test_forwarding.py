"""Two servers on one PostgreSQL database: whoever asks one of them gets into containers whose
tunnel the other has.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from bench.sessions import entered
from lading.client.api import ApiClient
from lading.client.servers.environment import Server
from lading.client.transport import HttpTransport
from lading.core.containers import sessions
from lading.core.containers.container import TUNNEL
from lading.core.errors import Unavailable
from lading.supervisor.container_gateway.outbound import keep_tunnel
from lading.supervisor.engines import EngineSettings
from lading.supervisor.session import SupervisorSession
from lading.supervisor.supervisor_config import SupervisorConfig
from tests.api.container_access.test_published_ports import InsideEngine, container
from tests.supervisor.container_gateway.entering import gateway_of, stub_running
from tests.system.test_servers import Servers, queue, servers

__all__ = ["servers"]
pytestmark = pytest.mark.system
PATIENCE = 180.0


@dataclass(frozen=True)
class Running:
    """A container whose gateway has its tunnel to server 1."""

    uuid: str
    server: Server
    """Server 0, for the admin."""


@asynccontextmanager
async def tunnelled(
    servers: Servers, client: ApiClient, uuid: str, port: int
) -> AsyncIterator[Running]:
    """A gateway that listens on `port` reaches out to server 1, as a supervisor does it."""
    certificate = servers.directory.certificate
    # Whose token has locked a container cannot enter it.
    dispatcher = await servers.client(0, token=servers.secrets.dispatch_token)
    token = (await dispatcher.action("containers", uuid, "lock"))["supervisor_token"]
    told = SupervisorConfig(
        container_uuid=uuid, supervisor_token=token, run_directory="/",
        cache_directory="/", api_url=f"https://{servers.addresses[1]}",
        api_ca_file=str(certificate),
    )  # fmt: skip
    async with HttpTransport(told.api_url, verify=certificate) as transport:
        session = SupervisorSession(told, transport)
        await session.open()
        await session.report_running(gateway=TUNNEL)
        said: list[str] = []
        server = Server(
            address=servers.addresses[0], token=servers.secrets.admin_token, authorities=certificate
        )  # fmt: skip
        keeping = asyncio.create_task(keep_tunnel(told, session, port, said.append))
        try:
            async with asyncio.timeout(PATIENCE):
                while (
                    servers.addresses[1]
                    not in (await client.get("containers", uuid))["gateway_address"]
                ):
                    await asyncio.sleep(0.02)
                yield Running(uuid, server)
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


async def waiting(servers: Servers, client: ApiClient) -> tuple[str, str]:
    """A container to be run, and the key of its gateway."""
    (uuid,) = await queue(client, 1)
    return uuid, sessions.container_key(servers.secrets.system_root_token, uuid)


async def test_a_session(servers: Servers, tmp_path: Path) -> None:
    client = await servers.client(0)
    uuid, key = await waiting(servers, client)
    data = os.urandom(3 << 20)
    (tmp_path / "data").write_bytes(data)
    async with stub_running(tmp_path) as engine, gateway_of(engine, uuid=uuid, key=key) as gateway:
        async with (
            tunnelled(servers, client, uuid, gateway.port) as there,
            entered(there.server, uuid) as ssh,
        ):
            done = await ssh.run(f"cat {tmp_path}/data; exit 7", encoding=None)
            assert (done.stdout, done.exit_status) == (data, 7)
        assert (await client.get("containers", uuid))["interactive_session_started"] is True
        rows = await client.list(
            "logs", filters=[["object_uuid", "=", uuid], ["event_type", "=", "shell"]]
        )
        # The server that has the tunnel writes it down, once.
        assert len(rows) == 1


@pytest.mark.long
async def test_a_session_when_the_other_server_is_gone(servers: Servers, tmp_path: Path) -> None:
    client = await servers.client(0)
    uuid, key = await waiting(servers, client)
    async with (
        stub_running(tmp_path) as engine,
        gateway_of(engine, uuid=uuid, key=key) as gateway,
        tunnelled(servers, client, uuid, gateway.port) as there,
    ):
        servers.processes[1].kill()
        await servers.processes[1].wait()
        with pytest.raises(Unavailable):
            async with entered(there.server, uuid):
                pass


async def test_a_published_port(servers: Servers, tmp_path: Path) -> None:
    client = await servers.client(0)
    uuid, key = await waiting(servers, client)
    engine = InsideEngine(
        EngineSettings(container_uuid=uuid, run_directory="/", cache_directory=str(tmp_path))
    )
    with container() as engine.inside:
        async with (
            gateway_of(engine, uuid=uuid, key=key) as gateway,
            tunnelled(servers, client, uuid, gateway.port) as there,
            aiohttp.ClientSession() as http,
        ):
            url = f"https://{there.server.address}/services/{uuid}-8000/page"
            for token, status in ((there.server.token, 200), ("none", 401)):
                headers = {"Authorization": f"Bearer {token}"}
                async with http.post(
                    url, data=b"x" * 100_000, headers=headers, ssl=False
                ) as answer:
                    text = await answer.text()
                    assert answer.status == status, text
                    if status == 200:
                        assert text.startswith("POST /page\n")
                        assert text.count("x" * 100_000) == 1
                        assert token.rpartition("/")[2] not in text
