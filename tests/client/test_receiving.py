from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from lading.client.receiving import Broken, Receiver, Unusual
from lading.net.http_upgrade import Way

DATA = bytes(range(256)) * 20_000
"""More than all pieces of a connection together."""


class Server:
    """Answers each request on a connection with the next of `answers`; None closes it."""

    def __init__(self) -> None:
        self.answers: list[bytes | None] = []
        self.asked: list[bytes] = []
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.asked.append(await reader.readuntil(b"\r\n\r\n"))
                answer = self.answers.pop(0)
                if answer is None:
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncGenerator[Server]:
    found = Server()
    async with await asyncio.start_server(found.serve, "127.0.0.1", 0) as listening:
        found.port = listening.sockets[0].getsockname()[1]
        yield found


@pytest.fixture
async def receiver(server: Server) -> AsyncGenerator[Receiver]:
    made = Receiver(Way(host="127.0.0.1", port=server.port), "here")
    yield made
    made.close()


def answer(
    body: bytes, *, status: str = "200 OK", more: str = "", length: int | None = None
) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{more}\r\n".encode() + body


async def _get(receiver: Receiver, *, timeout: float = 10.0) -> bytes:
    found = bytearray()

    async def sink(piece: memoryview) -> None:
        await asyncio.sleep(0)
        found.extend(piece)

    await receiver.receive(
        "/block", headers={"Authorization": "Bearer x"}, sink=sink, timeout=timeout
    )
    return bytes(found)


async def test_bodies_come_whole_over_one_connection(server: Server, receiver: Receiver) -> None:
    bodies = [DATA, b"", b"x", DATA[: 1 << 20], DATA[: (3 << 20) + 1]]
    server.answers = [answer(body) for body in bodies]
    assert [await _get(receiver) for _ in bodies] == bodies
    assert server.connections == 1
    assert (
        server.asked[0] == b"GET /block HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer x\r\n\r\n"
    )


async def test_a_reader_who_is_slow_holds_the_connection_back(
    server: Server, receiver: Receiver
) -> None:
    server.answers, found, gate = [answer(DATA)], bytearray(), asyncio.Event()

    async def sink(piece: memoryview) -> None:
        await gate.wait()
        found.extend(piece)

    taking = asyncio.create_task(receiver.receive("/block", headers={}, sink=sink, timeout=10.0))
    while not server.asked:
        await asyncio.sleep(0)
    gate.set()
    await taking
    assert bytes(found) == DATA


@pytest.mark.parametrize(
    "unusual",
    [
        answer(b"no such block", status="404 Not Found"),
        answer(b"x", more="Content-Encoding: gzip\r\n"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 16),
    ],
)
async def test_other_answers_are_for_the_usual_way(
    server: Server, receiver: Receiver, unusual: bytes
) -> None:
    server.answers = [unusual, answer(b"data")]
    with pytest.raises(Unusual):
        await _get(receiver)
    assert await _get(receiver) == b"data"
    assert server.connections == 2


async def test_a_body_that_ends_too_soon_is_not_whole(server: Server, receiver: Receiver) -> None:
    server.answers = [answer(DATA[:5000], length=6000)]
    with pytest.raises(Broken) as caught:
        await _get(receiver, timeout=0.05)
    assert isinstance(caught.value.fault, TimeoutError)


async def test_more_than_was_announced_spoils_the_connection(
    server: Server, receiver: Receiver
) -> None:
    server.answers = [answer(DATA[:100], length=50), answer(b"data")]
    with pytest.raises(Broken, match="more came"):
        await _get(receiver)
    assert await _get(receiver) == b"data"
    assert server.connections == 2


async def test_a_connection_that_was_closed_meanwhile_is_made_anew(
    server: Server, receiver: Receiver
) -> None:
    server.answers = [answer(b"one"), None, answer(b"two")]
    assert await _get(receiver) == b"one"
    assert await _get(receiver) == b"two"
    assert server.connections == 2


async def test_a_server_that_closes_is_not_asked_again_there(
    server: Server, receiver: Receiver
) -> None:
    server.answers = [answer(b"one", more="Connection: close\r\n"), answer(b"two")]
    assert await _get(receiver) == b"one"
    assert await _get(receiver) == b"two"
    assert server.connections == 2


async def test_a_sink_that_fails_ends_the_connection(server: Server, receiver: Receiver) -> None:
    async def sink(_: memoryview) -> None:
        raise OSError("the disk is full")

    server.answers = [answer(DATA), answer(b"data")]
    with pytest.raises(OSError, match="the disk is full"):
        await receiver.receive("/block", headers={}, sink=sink, timeout=10.0)
    assert await _get(receiver) == b"data"


async def test_nobody_there() -> None:
    with pytest.raises(Broken):
        await _get(Receiver(Way(unix_socket="/nonexistent/socket"), "here"))
