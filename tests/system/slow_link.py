"""A link of this machine with a delay, stalls and cuts: a relay of TCP connections in a thread.

It stands for a lossy network where the kernel has no `netem`: a lost packet is a stall, as TCP
repeats it; a cut ends all connections and takes no new ones.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

_PIECE: Final = 1 << 16
_STALL: Final = 0.2
"""Seconds after which TCP repeats a lost packet, about."""


class SlowLink:
    """Connections to 127.0.0.1:`target` through `port`. `delay`: seconds in each direction; `loss`:
    part of the pieces that are stalled.
    """

    def __init__(self, target: int, *, delay: float, loss: float) -> None:
        self.target, self._delay, self._loss = target, delay, loss
        self.port = 0
        self.passed = 0
        """Bytes that came through."""
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._chance = random.Random(1)

    @contextmanager
    def running(self) -> Generator[None]:
        """Inside, the link is there."""
        ready, over = threading.Event(), asyncio.Event()

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            server = await asyncio.start_server(self._join, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            await over.wait()
            server.close()
            self._end()

        thread = threading.Thread(target=lambda: asyncio.run(serve()), name="slow link")
        thread.start()
        ready.wait(30)
        try:
            yield
        finally:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(over.set)
            thread.join(30)

    def cut(self, is_cut: bool = True) -> None:
        """Cut the link, or mend it."""
        assert self._loop is not None
        self._is_cut = is_cut
        if is_cut:
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        for writer in [*self._writers]:
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        both = {writer, far_writer}
        self._writers |= both
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, far_writer))
                group.create_task(self._pass(far_reader, writer))
        finally:
            self._writers -= both
            for one in both:
                one.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                await asyncio.sleep(
                    self._delay + (_STALL if self._chance.random() < self._loss else 0)
                )
                writer.write(data)
                self.passed += len(data)
                await writer.drain()
            writer.write_eof() if writer.can_write_eof() else writer.close()
