"""The tunnel of a gateway to a server that comes, goes, and comes again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lading.core.protocols import http_head
from lading.net.pipes import Pipe, read_head
from lading.net.tunnel import Tunnel
from lading.supervisor.container_gateway import outbound
from lading.supervisor.session import SupervisorSession
from lading.supervisor.supervisor_config import SupervisorConfig
from lading.testing.asgi import AsgiTransport
from lading.testing.supervising import CONTAINER, SUPERVISOR_TOKEN, FakeServer


class Server:
    """Takes tunnels, or answers with another status."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.heads: list[bytes] = []
        self.tunnels: asyncio.Queue[Tunnel] = asyncio.Queue()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pipe = Pipe(reader, writer)
        head = await read_head(pipe, timeout=20)
        length = int(http_head.parse_request(head).get("content-length"))
        self.heads.append(head + await reader.readexactly(length))
        status = self.statuses.pop(0) if self.statuses else 101
        more = (
            "Upgrade: tunnel\r\nX-Arvados-Internal-Url: https://here:1/\r\n"
            if status == 101
            else ""
        )
        writer.write(f"HTTP/1.1 {status} x\r\n{more}\r\n".encode())
        if status != 101:
            await pipe.close()
            return
        tunnel = Tunnel(pipe, connected=False)
        self.tunnels.put_nowait(tunnel)
        await tunnel.run()


@pytest.fixture
def session() -> SupervisorSession:
    told = SupervisorConfig(
        container_uuid=CONTAINER, supervisor_token=SUPERVISOR_TOKEN, run_directory="/r",
        cache_directory="/c", api_socket="unused",
    )  # fmt: skip
    fake = FakeServer()
    fake.add_container(command=["x"], container_image="y")
    made = SupervisorSession(told, AsgiTransport(fake))
    made.record = {"gateway_auth_secret": "the key"}
    return made


async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    writer.close()
    await writer.wait_closed()


async def test_it_is_made_again_when_it_ends(
    tmp_path: Path, session: SupervisorSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbound, "FIRST_PAUSE", 0.001)
    server, path = Server(), tmp_path / "s"
    server.statuses = [503]
    said: list[str] = []
    told = SupervisorConfig(
        container_uuid=CONTAINER, supervisor_token="v2/a/b", run_directory="/r",
        cache_directory="/c", api_socket=str(path),
    )  # fmt: skip
    gateway = await asyncio.start_server(hello, "127.0.0.1", 0)
    listening = await asyncio.start_unix_server(server.serve, path)
    port = gateway.sockets[0].getsockname()[1]
    keeping = asyncio.create_task(outbound.keep_tunnel(told, session, port, said.append))
    async with asyncio.timeout(180):
        for _ in range(2):
            tunnel = await server.tunnels.get()
            pipe = await tunnel.open()
            assert await pipe.reader.read() == b"hello"
            assert session.reconnected.is_set() is (len(server.heads) == 3)
            await pipe.close()
            await tunnel.close()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    listening.close()
    gateway.close()
    assert said == ["the connection to the server broke; there is a new one"]
    assert session.reconnected.is_set()
    assert b"Authorization: Bearer v2/a/b" in server.heads[0]
    assert server.heads[0].startswith(
        f"POST /arvados/v1/containers/{CONTAINER}/gateway_tunnel ".encode()
    )
    assert server.heads[0].endswith(b"auth_secret=the+key")


async def test_a_server_that_wants_none_is_left_alone(
    tmp_path: Path, session: SupervisorSession
) -> None:
    server, path = Server(), tmp_path / "s"
    said: list[str] = []
    server.statuses = [401]
    listening = await asyncio.start_unix_server(server.serve, path)
    told = SupervisorConfig(
        container_uuid=CONTAINER, supervisor_token="v2/a/b", run_directory="/r",
        cache_directory="/c", api_socket=str(path),
    )  # fmt: skip
    await asyncio.wait_for(outbound.keep_tunnel(told, session, 1, said.append), 20)
    listening.close()
    assert "nobody can enter" in said[0]


def test_the_way_to_a_server_by_its_url() -> None:
    told = SupervisorConfig(
        container_uuid=CONTAINER, supervisor_token="t", run_directory="/r", cache_directory="/c",
        api_url="https://host:8/", api_insecure=True,
    )  # fmt: skip
    way, host = outbound.server_way(told)
    assert (way.host, way.port, host) == ("host", 8, "host:8")
