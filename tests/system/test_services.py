"""Service containers of a real cluster, reached with curl and with a WebSocket client."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, free_address, running_cluster
from tests.system.desk import Desk, desk_of

pytestmark = pytest.mark.system
PATIENCE = 180.0
PORT = 8000
CONFIG = """
Containers: {StopGracePeriod: 500ms}
Services: {ContainerWebServices: {ExternalURL: "https://*.containers.test/"}}
"""
# RFC 6455 with messages of less than 126 bytes; whatever else is asked for is a page.
SERVE = """
import base64, hashlib, http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        key = self.headers.get("Sec-WebSocket-Key")
        if key is None:
            secrets = (self.headers.get("Authorization"), self.headers.get("Cookie"))
            body = " ".join(map(str, (self.path, *secrets))).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            return self.wfile.write(body)
        accept = hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accept).decode())
        self.end_headers()
        while True:
            kind, size = self.rfile.read(2)
            mask = self.rfile.read(4)
            data = bytes(one ^ mask[at % 4] for at, one in enumerate(self.rfile.read(size & 127)))
            self.wfile.write(bytes([kind, len(data)]) + data)
            if kind & 15 == 8:
                self.close_connection = True
                return
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_root()
    for program in ("crun", "curl"):
        need_program(program)
    with running_cluster(tmp_path_factory.mktemp("services") / "data", CONFIG) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "python3")
        yield running


@pytest.fixture
async def desk(cluster: Cluster) -> AsyncIterator[Desk]:
    async with desk_of(cluster) as made:
        yield made


async def serve(desk: Desk, access: str) -> str:
    """A service that answers; its request."""
    uuid = await desk.submit(
        f"exec python3 -c '{SERVE}'",
        service=True,
        published_ports={str(PORT): {"access": access, "label": "echo", "initial_path": "start"}},
        runtime_constraints={"vcpus": 1, "ram": 256 << 20},
    )
    await desk.until(uuid, "Running")
    url = f"https://{desk.cluster.address}/services/{uuid}-{PORT}/up"
    token = f"Authorization: Bearer {desk.cluster.environment['ARVADOS_API_TOKEN']}"
    async with asyncio.timeout(PATIENCE):
        while (await asyncio.to_thread(curl, url, "-H", token))[0] != 200:
            await asyncio.sleep(0.05)
    return uuid


def curl(url: str, *more: str) -> tuple[int, str]:
    """Status and body."""
    command = ["curl", "-sk", "-m", "20", "-w", "\n%{http_code}", *more, url]
    body, _, status = subprocess.run(
        command, capture_output=True, text=True, check=False
    ).stdout.rpartition("\n")
    return int(status), body


async def test_pages_by_path_and_by_host(cluster: Cluster, desk: Desk) -> None:
    uuid = await serve(desk, "private")
    container = await desk.container(uuid)
    host, _, port = cluster.address.partition(":")
    shown = container["published_ports"][str(PORT)]
    assert shown["initial_url"] == f"https://{container['uuid']}-{PORT}.containers.test/start"
    token = cluster.environment["ARVADOS_API_TOKEN"]
    by_path = f"https://{cluster.address}/services/{uuid}-{PORT}/a?b"
    name = f"{container['uuid']}-{PORT}.containers.test"
    by_host = (f"https://{name}:{port}/a?b", "--connect-to", f"{name}:{port}:{host}:{port}")
    for url, *more in ((by_path,), by_host):
        assert (await asyncio.to_thread(curl, url, *more))[0] == 401
        got = await asyncio.to_thread(curl, url, *more, "-H", f"Authorization: Bearer {token}")
        assert got == (200, "/a?b None None")
        once = await asyncio.to_thread(
            curl, f"{url}&arvados_api_token={token}", *more, "-L", "-c", "/dev/null"
        )
        assert once == (200, "/a?b= None None")
    await desk.cancel(uuid)
    await desk.until(uuid, "Cancelled")
    status, text = await asyncio.to_thread(curl, by_path, "-H", f"Authorization: Bearer {token}")
    assert (status, "has ended" in text) == (410, True)


@pytest.mark.long
async def test_a_port_of_its_own(tmp_path: Path) -> None:
    """Without a wildcard in the DNS each published port has a port of the server, where that
    listens itself.
    """
    need_root()
    need_program("crun")
    external = int(free_address().rpartition(":")[2])
    web = f"{{ExternalPortMin: {external}, ExternalPortMax: {external}}}"
    config = f"Containers: {{StopGracePeriod: 500ms}}\nServices: {{ContainerWebServices: {web}}}\n"
    with running_cluster(tmp_path / "data", config) as cluster:
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "python3")
        async with desk_of(cluster) as desk:
            uuid = await serve(desk, "public")
            url = (await desk.container(uuid))["published_ports"][str(PORT)]["initial_url"]
            assert url == f"https://127.0.0.1:{external}/start"
            assert await asyncio.to_thread(curl, url) == (200, "/start None None")
            async with (
                aiohttp.ClientSession() as session,
                session.ws_connect(url, ssl=False) as socket,
            ):
                await socket.send_str("hello")
                assert (await socket.receive()).data == "hello"
            await desk.cancel(uuid)
            await desk.until(uuid, "Cancelled")
            assert (await asyncio.to_thread(curl, url))[0] == 410


@pytest.mark.parametrize("access", ["private", pytest.param("public", marks=pytest.mark.long)])
async def test_a_websocket(cluster: Cluster, desk: Desk, access: str) -> None:
    uuid = await serve(desk, access)
    url = f"https://{cluster.address}/services/{uuid}-{PORT}/live"
    trusted = ssl.create_default_context(cafile=str(cluster.data / "tls.crt"))
    headers = (
        {"Authorization": f"Bearer {cluster.environment['ARVADOS_API_TOKEN']}"}
        if access == "private"
        else {}
    )
    name = f"{uuid}-{PORT}.containers.test"
    async with aiohttp.ClientSession() as session, asyncio.timeout(PATIENCE):
        by_host = f"https://{cluster.address}/live"
        async with session.ws_connect(
            by_host, headers={**headers, "Host": name}, ssl=False
        ) as socket:
            await socket.send_str("by host")
            assert (await socket.receive()).data == "by host"
        if access == "private":
            with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
                await session.ws_connect(url, ssl=trusted)
        async with session.ws_connect(url, ssl=trusted, headers=headers) as socket:
            for number in range(100):
                await socket.send_str(f"message {number}")
                assert (await socket.receive()).data == f"message {number}"
            await socket.send_bytes(b"\x00\xff")
            said: Any = await socket.receive()
            assert said.data == b"\x00\xff"
        assert socket.close_code == 1000
    await desk.cancel(uuid)
    await desk.until(uuid, "Cancelled")
