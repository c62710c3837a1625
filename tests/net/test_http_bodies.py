from __future__ import annotations

import asyncio
import socket

import pytest

from lading.core.errors import Corrupt
from lading.core.protocols import http_head
from lading.net.http_bodies import read_body
from lading.net.pipes import Pipe


async def read(head: str, sent: bytes, *, method: str = "GET") -> tuple[bytes, bytes]:
    """The body, and what was left on the connection."""
    ours, theirs = socket.socketpair()
    pipe = Pipe(*await asyncio.open_connection(sock=ours))
    with theirs:
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        try:
            answer = http_head.parse_answer(f"HTTP/1.1 {head}\r\n\r\n".encode())
            body = b"".join(
                [piece async for piece in read_body(pipe.reader, answer, method=method)]
            )
            return body, await pipe.reader.read()
        finally:
            await pipe.close()


@pytest.mark.parametrize(
    ("head", "sent", "body", "left"),
    [
        ("200 OK\r\nContent-Length: 3", b"abcdef", b"abc", b"def"),
        ("200 OK", b"abc", b"abc", b""),
        ("204 No", b"abc", b"", b"abc"),
        ("200 OK\r\nTransfer-Encoding: chunked",
         b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\nmore", b"abc0123456789", b"more"),
    ],
)  # fmt: skip
async def test_a_body_ends_where_its_head_says(
    head: str, sent: bytes, body: bytes, left: bytes
) -> None:
    assert await read(head, sent) == (body, left)


async def test_a_head_request_has_none() -> None:
    assert await read("200 OK\r\nContent-Length: 3", b"", method="HEAD") == (b"", b"")


@pytest.mark.parametrize(
    ("head", "sent"),
    [
        ("Content-Length: 3", b"ab"),
        ("Transfer-Encoding: chunked", b"3\r\nab"),
        ("Transfer-Encoding: chunked", b"3\r\nabcd\r\n"),
        ("Transfer-Encoding: chunked", b"-3\r\nabcd\r\n"), ("Transfer-Encoding: chunked", b"3"),
        ("Transfer-Encoding: chunked", b"3;" + b"x" * 9000 + b"\r\n"),
    ],
)  # fmt: skip
async def test_what_is_not_whole_is_an_error(head: str, sent: bytes) -> None:
    with pytest.raises(Corrupt):
        await read(f"200 OK\r\n{head}", sent)
