"""Joins two connections: bytes in both directions, paced; and reads heads of HTTP messages.

Little is buffered: a side that does not read stops the other side after a few hundred KiB. Where
many connections are joined in an event loop with other work, `Turns` limits them to one piece in
each pass of the loop. Large streams wait while calls are delayed (`pacing`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from lading.core.errors import Malformed, Unavailable
from lading.core.protocols import http_head
from lading.process.concurrency import cancel_all

# A client paces nothing.
if TYPE_CHECKING:
    from lading.net.pacing import PacedStream, Pacer

# Bytes read at a time.
CHUNK = 1 << 17
"""Bytes read at once where no other work waits: the limit of a connection's read buffer."""
PIECE = 1 << 16
"""Bytes passed on in one turn."""
# Bytes of a piece that needs no turn: typed input, and its echo.
_SMALL = 1 << 12
# Seconds for the other side to read the rest of the written bytes.
_LINGER = 5.0
# Seconds of processor time after which joined connections pause for as long.
_BUSY = 0.001
# Processor time of reading a piece, as a share of the time of writing it.
_READING = 1.0


class Pipe(msgspec.Struct, frozen=True):
    """The two streams of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def close(self) -> None:
        """Close the connection; written bytes are still sent, if the other side takes them within
        seconds.
        """
        self.writer.close()
        # A connection that broke is closed as well.
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LINGER):
                await self.writer.wait_closed()


class Turns:
    """Order of the pieces of joined connections that share an event loop with other work.

    There is one turn in a pass of the loop: other work that is ready waits for one piece, not for
    one piece of each connection. Turns that have taken a millisecond together are followed by an
    equal pause: all connections together use about half of a processor at most. Small pieces take
    no turn. With a `pacer`, large streams wait for it first.
    """

    def __init__(
        self, clock: Callable[[], float] = time.thread_time, pacer: Pacer | None = None
    ) -> None:
        self._clock = clock
        self._pacer = pacer
        self._line = asyncio.Lock()
        self._busy = 0.0

    def note_call(self) -> None:
        """Note an API call, which large streams give way to."""
        if self._pacer is not None:
            self._pacer.note_call()

    def stream(self) -> StreamTurns:
        """The turns of one stream in one direction."""
        return StreamTurns(self, self._pacer.stream() if self._pacer is not None else None)

    @asynccontextmanager
    async def one(self, size: int) -> AsyncIterator[None]:
        """Context of one turn, for `size` bytes."""
        if size <= _SMALL:
            yield
            return
        async with self._line:
            began = self._clock()
            yield
            # Reading the piece took about as long as writing it.
            self._busy += (self._clock() - began) * (1 + _READING)
            pause = self._busy if self._busy >= _BUSY else 0.0
            if pause:
                self._busy = 0.0
            await asyncio.sleep(pause)


class StreamTurns:
    """The turns of one stream in one direction."""

    def __init__(self, turns: Turns, paced: PacedStream | None) -> None:
        self._turns = turns
        self._paced = paced

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Context of one turn, for `size` bytes."""
        if self._paced is not None:
            await self._paced.admit(size)
        async with self._turns.one(size):
            yield


async def join(first: Pipe, second: Pipe, turns: Turns | None = None) -> int:
    """Pass bytes both ways until a side ends, then close both pipes. The number of bytes passed."""
    moved = [0, 0]
    ways = (_carry(first, second, moved, 0, turns), _carry(second, first, moved, 1, turns))
    tasks = [asyncio.create_task(way, name="pipe") for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_all(*tasks)
        await asyncio.gather(first.close(), second.close())
    return sum(moved)


async def _carry(
    source: Pipe, target: Pipe, moved: list[int], which: int, turns: Turns | None
) -> None:
    stream = turns.stream() if turns is not None else None
    # A broken connection has ended.
    with contextlib.suppress(OSError):
        while data := await source.reader.read(CHUNK if stream is None else PIECE):
            moved[which] += len(data)
            if stream is None:
                target.writer.write(data)
            else:
                async with stream.turn(len(data)):
                    target.writer.write(data)
            await target.writer.drain()


async def read_head(pipe: Pipe, *, timeout: float) -> bytes:
    """The head of the next HTTP message. Raises Malformed when it is too long, Unavailable when
    none comes within `timeout` seconds.
    """
    try:
        async with asyncio.timeout(timeout):
            return await receive_head(pipe.reader)
    except (asyncio.IncompleteReadError, OSError, TimeoutError) as error:
        raise Unavailable("the connection ended before a whole message came") from error


async def receive_head(reader: asyncio.StreamReader) -> bytes:
    """The head of the next HTTP message. Raises Malformed when it is too long, OSError,
    IncompleteReadError.
    """
    try:
        head = await reader.readuntil(http_head.END)
    except asyncio.LimitOverrunError as error:
        raise Malformed("HTTP: the head of the message is too long") from error
    if len(head) > http_head.MOST:
        raise Malformed("HTTP: the head of the message is too long")
    return head
