"""Connections through one connection, between two real ends."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lading.core.errors import Unavailable
from lading.net.http_upgrade import Way, trusting
from lading.net.pipes import Pipe
from lading.net.tunnel import Tunnel
from lading.wiring.directory import ensure_certificate

PATIENCE = 180.0


@asynccontextmanager
async def tunnelled(
    *, accept: bool = True, keepalive: float = 30.0
) -> AsyncIterator[tuple[Tunnel, list[Tunnel]]]:
    """The end that opens connections; behind the other is a server that sends back what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    ours, theirs = socket.socketpair()
    target = Way(host="127.0.0.1", port=port if accept else 1)
    near = Tunnel(
        Pipe(*await asyncio.open_connection(sock=ours)), connected=False, keepalive=keepalive
    )
    far = Tunnel(
        Pipe(*await asyncio.open_connection(sock=theirs)),
        connected=True,
        accept=target.open,
        keepalive=keepalive,
    )
    running = [asyncio.create_task(one.run()) for one in (near, far)]
    try:
        async with asyncio.timeout(PATIENCE):
            yield near, [far]
            await near.close()
            await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        server.close()


async def test_many_connections_at_once_and_nothing_is_lost() -> None:
    async with tunnelled() as (tunnel, _):

        async def one(size: int) -> None:
            pipe = await tunnel.open()
            data = os.urandom(size)
            pipe.writer.write(data)
            assert await pipe.reader.readexactly(size) == data
            pipe.writer.write_eof()
            assert await pipe.reader.read() == b""
            await pipe.close()

        await asyncio.gather(*(one(size) for size in (1, 1000, 300_000, 2_000_000, 2_000_001)))


async def test_a_stream_that_nobody_takes_ends_alone() -> None:
    async with tunnelled(accept=False) as (tunnel, _):
        pipe = await tunnel.open()
        assert await pipe.reader.read() == b""
        # Both ways end: what is written meets an error, and does not wait for ever.
        with pytest.raises(ConnectionError):
            async with asyncio.timeout(20):
                while True:
                    pipe.writer.write(bytes(1 << 16))
                    await pipe.writer.drain()
        await pipe.close()
        assert tunnel.is_open


async def test_a_connection_that_is_dropped_in_the_middle() -> None:
    async with tunnelled() as (tunnel, _):
        pipe = await tunnel.open()
        pipe.writer.write(bytes(100_000))
        pipe.writer.transport.abort()
        again = await tunnel.open()
        again.writer.write(b"still there")
        assert await again.reader.readexactly(11) == b"still there"
        await again.close()


async def test_an_end_of_the_tunnel_ends_its_connections() -> None:
    async with tunnelled() as (tunnel, others):
        pipe = await tunnel.open()
        await others[0].close()
        assert await pipe.reader.read() == b""
        await pipe.close()
        while tunnel.is_open:
            await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="down"):
            await tunnel.open()


async def test_pings_keep_it_and_silence_ends_it() -> None:
    async with tunnelled(keepalive=0.01) as (tunnel, _):
        pipe = await tunnel.open()
        for _ in range(5):
            pipe.writer.write(b"x")
            assert await pipe.reader.readexactly(1) == b"x"
        await pipe.close()
    ours, theirs = socket.socketpair()
    alone = Tunnel(Pipe(*await asyncio.open_connection(sock=ours)), connected=False, keepalive=0.01)
    with theirs:
        await asyncio.wait_for(alone.run(), PATIENCE)


async def test_nonsense_ends_it() -> None:
    ours, theirs = socket.socketpair()
    tunnel = Tunnel(Pipe(*await asyncio.open_connection(sock=ours)), connected=False)
    with theirs:
        theirs.send(b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.wait_for(tunnel.run(), PATIENCE)


async def test_a_tls_connection_that_broke_can_be_closed_again(tmp_path: Path) -> None:
    """asyncio's TLS connections must not be written to once they were closed."""
    certificate, key = tmp_path / "c", tmp_path / "k"
    ensure_certificate(certificate, key, host="127.0.0.1", now=datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    met: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    server = await asyncio.start_server(
        lambda _, writer: met.put_nowait(writer), "127.0.0.1", 0, ssl=context
    )
    port = server.sockets[0].getsockname()[1]
    async with asyncio.timeout(PATIENCE):
        pipe = await Way(host="127.0.0.1", port=port, tls=trusting(certificate)).open()
        tunnel = Tunnel(pipe, connected=True)
        running = asyncio.create_task(tunnel.run())
        (await met.get()).transport.abort()
        await running
        await tunnel.close()
        await tunnel.close()
    server.close()


async def test_a_tunnel_that_has_just_broken_is_down() -> None:
    ours, theirs = socket.socketpair()
    pipe = Pipe(*await asyncio.open_connection(sock=ours))
    tunnel = Tunnel(pipe, connected=False)
    running = asyncio.create_task(tunnel.run())
    await asyncio.sleep(0)
    pipe.writer.close()
    with pytest.raises(Unavailable, match="down"):
        await tunnel.open()
    theirs.close()
    await asyncio.wait_for(running, PATIENCE)
