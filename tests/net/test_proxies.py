"""Connections through a proxy, which sees addresses and bytes of TLS alone."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lading.client.transport import HttpTransport
from lading.core.errors import Invalid, Unavailable
from lading.net.certificates import make_certificate
from lading.net.proxies import Proxy, proxy_for


@pytest.mark.parametrize(
    ("environ", "host", "proxy"),
    [
        ({}, "lab", None),
        ({"HTTPS_PROXY": "http://p:3128"}, "lab", Proxy("p", 3128)),
        ({"https_proxy": "p"}, "lab", Proxy("p", 8080)),
        ({"ALL_PROXY": "http://p:1/"}, "lab", Proxy("p", 1)),
        ({"HTTPS_PROXY": "http://a%40b:c@p:1"}, "lab", Proxy("p", 1, "Basic YUBiOmM=")),
        ({"HTTPS_PROXY": "http://p:1"}, "127.0.0.1", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, "lab", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x, lab.org"}, "a.LAB.org", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".lab.org"}, "lab.org", None),
        ({"HTTPS_PROXY": "http://p:1", "no_proxy": "lab.org:443"}, "lab.org", None),
        ({"HTTPS_PROXY": "http://p:1", "no_proxy": "lab.org:1"}, "lab.org", Proxy("p", 1)),
        ({"HTTPS_PROXY": "http://p:1", "no_proxy": "lab.org"}, "notlab.org", Proxy("p", 1)),
        ({"HTTPS_PROXY": "http://p:1", "no_proxy": "fd00::1"}, "fd00::1", None),
    ],
)
def test_the_variables(environ: dict[str, str], host: str, proxy: Proxy | None) -> None:
    assert proxy_for(environ, host, 443) == proxy


@pytest.mark.parametrize("address", ["https://p:1", "socks5://p:1", "http://p:port", "http://:1"])
def test_other_proxies_are_refused(address: str) -> None:
    with pytest.raises(Invalid, match="HTTPS_PROXY: must be http://"):
        proxy_for({"HTTPS_PROXY": address}, "lab", 443)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


class FakeProxy:
    """A proxy that leads each tunnel to one server, or refuses with a status."""

    def __init__(self, server: int, status: int = 200) -> None:
        self.server, self.status = server, status
        self.heads: list[str] = []
        self.is_over = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 %d x\r\n\r\n" % self.status)
        if self.status != 200:
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.server)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass_on(reader, far_writer))
                group.create_task(_pass_on(far_reader, writer))
        finally:
            for way in (far_writer, writer):
                way.close()
                with suppress(OSError):
                    await way.wait_closed()
            self.is_over.set()


@asynccontextmanager
async def _proxied(pem: Path, status: int = 200) -> AsyncGenerator[tuple[HttpTransport, FakeProxy]]:
    """A transport to a server of TLS behind a proxy, and the proxy."""
    pem.write_text("".join(make_certificate("lab.example.org", now=datetime.now(UTC))))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    proxy = FakeProxy(server.sockets[0].getsockname()[1], status)
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    way = Proxy("127.0.0.1", listener.sockets[0].getsockname()[1], "Basic abc")
    async with (
        server,
        listener,
        HttpTransport("https://lab.example.org", verify=pem, proxy=way) as transport,
    ):
        yield transport, proxy


async def test_a_call_through_a_proxy(tmp_path: Path) -> None:
    async with _proxied(tmp_path / "s.pem") as (transport, proxy):
        answer = await transport.request("GET", "/x", headers={"Authorization": "Bearer secret"})
        assert (answer.status, answer.body) == (200, b"hi")
        await proxy.is_over.wait()
    assert proxy.heads == [
        "CONNECT lab.example.org:443 HTTP/1.1\r\nHost: lab.example.org:443\r\n"
        "Proxy-Authorization: Basic abc\r\n\r\n"
    ]


async def test_a_proxy_that_refuses(tmp_path: Path) -> None:
    async with _proxied(tmp_path / "s.pem", 407) as (transport, _):
        with pytest.raises(Unavailable, match="cannot be reached"):
            await transport.request("GET", "/x", headers={})


async def test_a_server_that_is_no_proxy() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        way = Proxy("127.0.0.1", listener.sockets[0].getsockname()[1])
        async with HttpTransport("https://lab.example.org", proxy=way) as transport:
            with pytest.raises(Unavailable, match="gives no answer of HTTP"):
                await transport.request("GET", "/x", headers={})


def test_the_password_is_encoded() -> None:
    assert base64.b64decode("YUBiOmM=") == b"a@b:c"
