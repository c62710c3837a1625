from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from typing import Any, ClassVar

import pytest

from lading.core.containers.container_network import Endpoint
from lading.supervisor.network.forwarder import Forwarder


async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers when all has been said."""
    said = await reader.read()
    writer.write(said[::-1])
    writer.close()


async def listening(target: Endpoint, **more: int) -> tuple[Forwarder, int]:
    made = socket.create_server(("127.0.0.1", 0))
    one = Forwarder(target, made, **more)
    await one.start()
    return one, int(made.getsockname()[1])


async def test_bytes_and_their_end_pass_both_ways() -> None:
    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    async with server:
        one, port = await listening(Endpoint("localhost", server.sockets[0].getsockname()[1]))
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"ab" * 500_000)
            writer.write_eof()
            assert await reader.read() == b"ba" * 500_000
            writer.close()
        await one.close()
        await one.close()


async def test_a_service_that_is_not_there_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    one, port = await listening(Endpoint("127.0.0.1", free))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.read() == b""
    writer.close()
    await one.close()


async def test_the_end_of_all_ends_connections() -> None:
    arrived = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(wait, "127.0.0.1", 0)
    async with server:
        one, port = await listening(Endpoint("127.0.0.1", server.sockets[0].getsockname()[1]))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await arrived.wait()
        await one.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_no_more_connections_than_are_allowed() -> None:
    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    async with server:
        target = Endpoint("127.0.0.1", server.sockets[0].getsockname()[1])
        one, port = await listening(target, most=1)
        first_reader, first = await asyncio.open_connection("127.0.0.1", port)
        first.write(b"x")
        await first.drain()
        second_reader, second = await asyncio.open_connection("127.0.0.1", port)
        assert await second_reader.read() == b""
        first.write_eof()
        assert await first_reader.read() == b"x"
        for writer in (first, second):
            writer.close()
            await writer.wait_closed()
        await one.close()


class _Full(socket.socket):
    """Has no descriptor for a connection, the first time."""

    faults: ClassVar[list[OSError]] = []

    def accept(self) -> tuple[socket.socket, Any]:
        if self.faults:
            raise self.faults.pop()
        return super().accept()


async def test_a_want_of_descriptors_passes() -> None:
    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    async with server:
        made = _Full()
        made.bind(("127.0.0.1", 0))
        made.listen()
        _Full.faults += [OSError(errno.EMFILE, "no descriptors"), BlockingIOError()]
        target = Endpoint("127.0.0.1", server.sockets[0].getsockname()[1])
        one = Forwarder(target, made, pause=0.01)
        await one.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", made.getsockname()[1])
        writer.write(b"ab")
        writer.write_eof()
        assert await reader.read() == b"ba"
        writer.close()
        await writer.wait_closed()
        _Full.faults.append(OSError(errno.EMFILE, "no descriptors"))
        _, writer = await asyncio.open_connection("127.0.0.1", made.getsockname()[1])
        while _Full.faults:
            await asyncio.sleep(0)
        await one.close()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
