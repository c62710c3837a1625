"""The body of an HTTP answer that is read from a connection, as its head says where it ends (RFC
9112, 6.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from lading.core.errors import Corrupt
from lading.core.protocols.http_head import Head
from lading.net.pipes import CHUNK, Pipe

_LONGEST_LINE = 8192


async def read_body(pipe: Pipe, head: Head, *, method: str) -> AsyncGenerator[bytes]:
    """The body in pieces. Raises Corrupt when it ends too soon or cannot be read."""
    if method == "HEAD" or head.status in (204, 304) or head.status < 200:
        return
    try:
        if head.says("transfer-encoding", "chunked"):
            async for piece in _chunks(pipe):
                yield piece
        elif length := head.get("content-length"):
            async for piece in _exactly(pipe, _number(length, 10)):
                yield piece
        else:
            while piece := await pipe.reader.read(CHUNK):
                yield piece
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
        raise Corrupt("the answer ended before it was whole") from error


async def _chunks(pipe: Pipe) -> AsyncGenerator[bytes]:
    while True:
        line = await _line(pipe)
        size = _number(line.partition(b";")[0].strip().decode("latin-1"), 16)
        if size == 0:
            break
        async for piece in _exactly(pipe, size):
            yield piece
        if await _line(pipe):
            raise Corrupt("the answer cannot be read: a chunk is longer than it says")
    while await _line(pipe):
        pass


async def _exactly(pipe: Pipe, size: int) -> AsyncGenerator[bytes]:
    while size:
        piece = await pipe.reader.read(min(size, CHUNK))
        if not piece:
            raise Corrupt("the answer ended before it was whole")
        size -= len(piece)
        yield piece


async def _line(pipe: Pipe) -> bytes:
    line = await pipe.reader.readuntil(b"\r\n")
    if len(line) > _LONGEST_LINE:
        raise Corrupt("the answer cannot be read: a line is too long")
    return line[:-2]


def _number(text: str, base: int) -> int:
    try:
        number = int(text, base) if text.isascii() and text.isalnum() else -1
    except ValueError:
        number = -1
    if number < 0:
        raise Corrupt(f"the answer cannot be read: {text[:20]!r} is no length")
    return number
