"""Reads bodies of HTTP messages from a connection, up to the end that the head announces; writes
answers in one piece.

Source: RFC 9112, 6.3. Written by hand: h11 copies each piece three times, and takes bytes of the
connection that come after the body (`python -m bench.http` has the figures). Standard library only:
the HPC daemon uses this.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from http import HTTPStatus

from lading.core.errors import Corrupt, Malformed
from lading.core.protocols.http_head import HttpHead

# Bytes of one piece, at most; as `net.pipes` passes them on.
_PIECE = 1 << 17
# Bytes of the line of a chunk or trailer, as servers commonly allow for one header line.
_LONGEST_LINE = 8192
# Digits of a length: more bytes than any disk has.
_LONGEST_NUMBER = 16
# Trailer fields are read and dropped; a hostile peer must not send them for ever.
_MOST_TRAILERS = 100
# Seconds without further bytes of a body that is discarded.
_DISCARD_PAUSE = 3.0


async def read_body(
    reader: asyncio.StreamReader, head: HttpHead, *, method: str
) -> AsyncGenerator[bytes]:
    """The body of an answer in pieces. Raises Corrupt when it ends too soon or cannot be read."""
    if method == "HEAD" or head.status in (204, 304) or head.status < 200:
        return
    try:
        async with aclosing(_pieces(reader, head)) as pieces:
            async for piece in pieces:
                yield piece
    except (asyncio.IncompleteReadError, OSError) as error:
        raise Corrupt("the answer ended before it was whole") from error
    except Malformed as error:
        raise Corrupt(f"the answer cannot be read: {error.message}") from error


async def read_sized(reader: asyncio.StreamReader, size: int) -> AsyncGenerator[bytes]:
    """A body of this many bytes, in pieces. Raises IncompleteReadError, OSError."""
    while size:
        piece = await _piece(reader, size)
        size -= len(piece)
        yield piece


async def read_chunks(reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    """A body in chunks, to the end of its trailers, which are left out.

    Raises Malformed, IncompleteReadError, OSError.
    """
    while size := _number((await _line(reader)).partition(b";")[0].strip().decode("latin-1"), 16):
        # Not by `read_sized`: a generator for each chunk costs 5 % of the throughput.
        while size:
            piece = await _piece(reader, size)
            size -= len(piece)
            yield piece
        if await _line(reader):
            raise Malformed("a chunk of the body is longer than its length")
    for _ in range(_MOST_TRAILERS):
        if not await _line(reader):
            return
    raise Malformed("the body has too many trailers")


async def discard_body(reader: asyncio.StreamReader, left: int, seconds: float) -> None:
    """Receive and discard the rest of a body: a connection that is reset meanwhile could lose the
    answer. Raises TimeoutError, OSError.

    Source: RFC 9112, 9.6.
    """
    async with asyncio.timeout(seconds):
        while left > 0:
            async with asyncio.timeout(_DISCARD_PAUSE):
                data = await reader.read(_PIECE)
            left = left - len(data) if data else 0


async def write_answer(
    writer: asyncio.StreamWriter,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    is_kept: bool,
    is_head: bool = False,
) -> None:
    """Send an answer; `is_kept`: another request may follow; `is_head`: the body is left out.
    Raises OSError.
    """
    fields = {
        **headers,
        "Content-Length": str(len(body)),
        "Connection": "keep-alive" if is_kept else "close",
    }
    start = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
    writer.write(HttpHead(start, tuple(fields.items())).encode() + (b"" if is_head else body))
    await writer.drain()


def _pieces(reader: asyncio.StreamReader, head: HttpHead) -> AsyncGenerator[bytes]:
    length = head.get("content-length")
    if head.says("transfer-encoding", "chunked"):
        return read_chunks(reader)
    return read_sized(reader, _number(length, 10)) if length else _read_all(reader)


async def _piece(reader: asyncio.StreamReader, size: int) -> bytes:
    piece = await reader.read(min(size, _PIECE))
    if not piece:
        raise asyncio.IncompleteReadError(b"", size)
    return piece


async def _read_all(reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    while piece := await reader.read(_PIECE):
        yield piece


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        line = await reader.readuntil(b"\r\n")
    except asyncio.LimitOverrunError as error:
        raise Malformed("a line of the body is too long") from error
    if len(line) > _LONGEST_LINE:
        raise Malformed("a line of the body is too long")
    return line[:-2]


def _number(digits: str, base: int) -> int:
    known_digits = "0123456789abcdef"[:base]
    if not 0 < len(digits) <= _LONGEST_NUMBER or digits.lower().strip(known_digits):
        raise Malformed(f"{digits[:20]!r} is no length")
    return int(digits, base)
