"""Bytes between two connections, as they come, and heads of HTTP messages read from one.

Nothing is gathered: a side that does not read stops the other one after a few hundred KiB. Where
many are joined beside other work, `Turns` keep them from filling a pass of the event loop together.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lading.core.errors import Malformed, Unavailable
from lading.core.protocols import http_head
from lading.net.pacing import PacedStream, Pacer

CHUNK = 1 << 17
PIECE = 1 << 16
"""What is carried in one turn."""
_SMALL = 1 << 12
_LINGER = 5.0
_BUSY = 0.001
_READING = 1.0


@dataclass(frozen=True, slots=True)
class Pipe:
    """One connection: what comes from it, and where to write to it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def close(self) -> None:
        """End it; what was written still goes out, if the other side takes it soon."""
        self.writer.close()
        # A connection that broke is closed as well.
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LINGER):
                await self.writer.wait_closed()


class Turns:
    """Whose piece is next, among joined connections that share an event loop with other work.

    There is one turn in a pass of the loop, so what else is ready waits for one piece and not for
    one of each connection. Turns that have taken a millisecond are followed by as long a pause:
    then all connections together use no more than about half of a processor. Small pieces, as
    somebody types them, take no turn. With a `pacer`, streams that move much wait for it first.
    """

    def __init__(
        self, clock: Callable[[], float] = time.thread_time, pacer: Pacer | None = None
    ) -> None:
        self._clock = clock
        self._pacer = pacer
        self._line = asyncio.Lock()
        self._busy = 0.0

    def note_call(self) -> None:
        """Somebody waits for the answer to a call, beside all that is passed on."""
        if self._pacer is not None:
            self._pacer.note_call()

    def stream(self) -> Stream:
        """The turns of one stream in one direction."""
        return Stream(self, self._pacer.stream() if self._pacer is not None else None)

    @asynccontextmanager
    async def one(self, size: int) -> AsyncIterator[None]:
        """The turn in which so many bytes may be passed on."""
        if size <= _SMALL:
            yield
            return
        async with self._line:
            began = self._clock()
            yield
            # To read them took about as long.
            self._busy += (self._clock() - began) * (1 + _READING)
            pause = self._busy if self._busy >= _BUSY else 0.0
            if pause:
                self._busy = 0.0
            await asyncio.sleep(pause)


class Stream:
    """The turns of one stream in one direction."""

    def __init__(self, turns: Turns, paced: PacedStream | None) -> None:
        self._turns = turns
        self._paced = paced

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """The turn in which so many bytes may be passed on."""
        if self._paced is not None:
            await self._paced.admit(size)
        async with self._turns.one(size):
            yield


async def join(one: Pipe, other: Pipe, turns: Turns | None = None) -> int:
    """Carry bytes both ways until either side ends, then close both; how many were carried."""
    moved = [0, 0]
    ways = (_carry(one, other, moved, 0, turns), _carry(other, one, moved, 1, turns))
    tasks = [asyncio.create_task(way, name="pipe") for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(one.close(), other.close())
    return sum(moved)


async def _carry(
    source: Pipe, target: Pipe, moved: list[int], which: int, turns: Turns | None
) -> None:
    stream = turns.stream() if turns is not None else None
    # A connection that breaks has ended.
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
    none comes.
    """
    try:
        async with asyncio.timeout(timeout):
            head = await pipe.reader.readuntil(http_head.END)
    except asyncio.LimitOverrunError as error:
        raise Malformed("HTTP: the head of the message is too long") from error
    except (asyncio.IncompleteReadError, OSError, TimeoutError) as error:
        raise Unavailable("the connection ended before a whole message came") from error
    if len(head) > http_head.MOST:
        raise Malformed("HTTP: the head of the message is too long")
    return head
