from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lading.core.protocols.connection_limits import Connection, ConnectionTable, HttpLimits
from lading.net.acceptor import Acceptor, StreamServer
from lading.net.certificates import make_certificate

LIMITS = HttpLimits(head_seconds=0.2, connections=4, connections_per_address=2, trusted=())


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: Connection) -> None:
    while line := await reader.readline():
        writer.write(line)


@asynccontextmanager
async def serving(
    limits: HttpLimits = LIMITS, context: ssl.SSLContext | None = None
) -> AsyncIterator[StreamServer]:
    server = StreamServer(echo, limits)
    server.start([socket.create_server(("127.0.0.1", 0))], context=context)
    try:
        yield server
    finally:
        await server.close()


async def connect(server: StreamServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", server.port)


async def ends(reader: asyncio.StreamReader) -> None:
    """Wait until the other side has ended the connection without a word."""
    async with asyncio.timeout(10):
        with suppress(ConnectionResetError):
            assert await reader.read() == b""


async def comes_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


async def test_streams_are_served_and_ended_with_the_server() -> None:
    async with serving() as server:
        reader, writer = await connect(server)
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        assert len(server.table) == 1
    assert await reader.read() == b""
    assert len(server.table) == 0
    writer.close()


async def test_who_leaves_is_not_counted() -> None:
    async with serving() as server:
        _, writer = await connect(server)
        await comes_true(lambda: len(server.table) == 1)
        writer.close()
        await comes_true(lambda: len(server.table) == 0)


async def test_who_says_nothing_is_dropped() -> None:
    async with serving() as server:
        reader, writer = await connect(server)
        await ends(reader)
        writer.close()
        assert len(server.table) == 0


async def test_a_handshake_that_does_not_end_is_dropped(tmp_path: Path) -> None:
    certificate, key = make_certificate("localhost", now=datetime.now(UTC))
    (tmp_path / "both").write_text(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both")
    async with serving(context=context) as server:
        reader, writer = await connect(server)
        writer.write(b"\x16\x03\x01")
        await ends(reader)
        writer.close()
        await comes_true(lambda: len(server.table) == 0)
        trusting = ssl.create_default_context(cadata=certificate)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=trusting, server_hostname="localhost"
        )
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        writer.close()


async def test_the_longest_waiting_stranger_gives_way_and_others_are_refused() -> None:
    limits = HttpLimits(connections_per_address=2, trusted=())
    async with serving(limits) as server:
        first = await connect(server)
        await comes_true(lambda: len(server.table) == 1)
        others = [await connect(server) for _ in range(2)]
        await ends(first[0])
        assert len(server.table) == 2
        for one in server.table:
            server.table.serve(one)
        refused = await connect(server)
        await ends(refused[0])
        for _, writer in (first, *others, refused):
            writer.close()


class FullListener(socket.socket):
    """A listening socket of a process that may open no more files for a while."""

    faults: list[int] = []

    def accept(self) -> tuple[socket.socket, object]:
        if self.faults:
            raise OSError(self.faults.pop(), "no room")
        return super().accept()


async def test_a_system_without_room_drops_who_is_missed_least_and_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listening = FullListener(socket.AF_INET)
    listening.faults = []
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    server = StreamServer(echo, HttpLimits(trusted=()))
    server.start([listening])
    first = await connect(server)
    await comes_true(lambda: len(server.table) == 1)
    listening.faults = [errno.EMFILE, errno.EPROTO]
    reader, writer = await connect(server)
    writer.write(b"hello\n")
    assert await reader.readline() == b"hello\n"
    await ends(first[0])
    assert "no room" in caplog.text
    await server.close()
    for one in (first[1], writer):
        one.close()


async def test_an_acceptor_that_closes_ends_handshakes(tmp_path: Path) -> None:
    certificate, key = make_certificate("localhost", now=datetime.now(UTC))
    (tmp_path / "both").write_text(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both")
    table = ConnectionTable(HttpLimits())
    acceptor = Acceptor(table, lambda _: asyncio.Protocol(), context=context)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    acceptor.listen([listening])
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    await comes_true(lambda: len(table) == 1)
    acceptor.close()
    await acceptor.wait_closed()
    assert len(table) == 0
    writer.close()
