from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from lading.supervisor.network.forwarder import Resolver, machine_resolvers


class Upstream(asyncio.DatagramProtocol):
    """Answers each question with its own bytes, backwards; says nothing to one that begins with
    0.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if not data.startswith(b"0"):
            self._transport.sendto(data[::-1], addr)  # type: ignore[attr-defined]


async def by_tcp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"long " + await reader.read(100))
    writer.close()


def sockets() -> tuple[socket.socket, socket.socket, int]:
    listening = socket.create_server(("127.0.0.1", 0))
    port = int(listening.getsockname()[1])
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    datagrams.bind(("127.0.0.1", port))
    return datagrams, listening, port


async def ask(port: int, question: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as asking:
        await loop.sock_connect(asking, ("127.0.0.1", port))
        await loop.sock_sendall(asking, question)
        return await asyncio.wait_for(loop.sock_recv(asking, 100), 20)


async def test_questions_are_passed_on() -> None:
    server = await asyncio.start_server(by_tcp, "127.0.0.1", 0)
    there = server.sockets[0].getsockname()[1]
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        Upstream, local_addr=("127.0.0.1", there)
    )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dead = int(silent.getsockname()[1])
        datagrams, listening, port = sockets()
        find = lambda: (("127.0.0.1", there), ("127.0.0.1", dead))  # noqa: E731
        one = Resolver(datagrams, listening, find=find, answer_time=0.2)
        await one.start()
        assert await ask(port, b"abc") == b"cba"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"q")
        assert await reader.read() == b"long q"
        writer.close()
        await writer.wait_closed()
        with pytest.raises((TimeoutError, OSError)):
            await asyncio.wait_for(ask(port, b"0"), 1)
        await one.close()
        await one.close()
    transport.close()
    server.close()
    await server.wait_closed()


async def test_the_next_resolver_is_asked_where_the_first_is_silent() -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Upstream, local_addr=("127.0.0.1", 0))
    there = transport.get_extra_info("sockname")[1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        datagrams, listening, port = sockets()
        find = lambda: (silent.getsockname(), ("127.0.0.1", there))  # noqa: E731
        one = Resolver(datagrams, listening, find=find, answer_time=0.1)
        await one.start()
        assert await ask(port, b"abc") == b"cba"
        await one.close()
    transport.close()


async def test_too_many_questions_are_dropped() -> None:
    datagrams, listening, port = sockets()
    one = Resolver(datagrams, listening, find=lambda: (("127.0.0.1", port),), most=0)
    await one.start()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ask(port, b"abc"), 0.2)
    await one.close()


def test_the_resolvers_of_the_machine(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    assert machine_resolvers(file) == (("127.0.0.1", 53),)
    file.write_text("nameserver 10.0.0.1\nnameserver fd00::1\n")
    assert machine_resolvers(file) == (("10.0.0.1", 53), ("fd00::1", 53))
