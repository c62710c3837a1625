"""Many streams over one connection: yamux (`core.protocols.yamux`) over any stream of bytes.

Each stream is joined to a socket of its own, so its user needs to know nothing of the tunnel. A
tunnel sends a ping every half minute, and ends when nothing has come between two of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

from lading.core.errors import Malformed, Unavailable
from lading.core.protocols import yamux
from lading.core.protocols.yamux import Data, Finished, GoneAway, Opened, Pong, Reset, WindowUpdate
from lading.net.http_upgrade import LIMIT
from lading.net.pipes import CHUNK, Pipe
from lading.process.concurrency import cancel_all

# Seconds between pings; a connection without a response counts as broken.
KEEPALIVE = 30.0
"""Seconds between two pings: the default of yamux."""
Accept = Callable[[], Awaitable[Pipe]]


class _Stream:
    """One stream: received data that is not delivered yet, and whether more may be sent."""

    def __init__(self) -> None:
        self.come: asyncio.Queue[bytes] = asyncio.Queue()
        self.room = asyncio.Event()
        self.is_over = False


class Tunnel:
    """One end of a tunnel. `accept` opens the connection that is joined to a stream of the other
    side; None refuses all streams.
    """

    def __init__(
        self,
        pipe: Pipe,
        *,
        connected: bool,
        accept: Accept | None = None,
        keepalive: float = KEEPALIVE,
    ) -> None:
        self._pipe = pipe
        # Streams that the server may open: sessions and requests to ports of one container.
        self._state = yamux.Multiplexer(connected=connected, most=1024 if accept else 0)
        self._accept = accept
        self._keepalive = keepalive
        self._streams: dict[int, _Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._heard = True
        self.is_open = True

    async def run(self) -> None:
        """Serve until the connection ends; every stream ends with it."""
        watching = asyncio.create_task(self._watch(), name="keepalive")
        try:
            # The end of the connection ends the tunnel; so does a violation of the protocol.
            with contextlib.suppress(OSError, Malformed):
                while data := await self._pipe.reader.read(CHUNK):
                    self._heard = True
                    for event in self._state.receive(data):
                        self._heed(event)
                    await self._flush()
        finally:
            self.is_open = False
            watching.cancel()
            # The connection is broken already.
            with contextlib.suppress(OSError):
                await self._flush()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(watching, *self._tasks, return_exceptions=True)
            await self._pipe.close()

    async def open(self) -> Pipe:
        """A connection through the tunnel. Raises Unavailable when the tunnel has ended."""
        if not self.is_open:
            raise Unavailable("the tunnel to the container is down; try again in a moment")
        ours, theirs = socket.socketpair()
        try:
            near = Pipe(*await asyncio.open_connection(sock=ours, limit=LIMIT))
            far = Pipe(*await asyncio.open_connection(sock=theirs, limit=LIMIT))
        except OSError as error:
            raise Unavailable(f"no connection through the tunnel: {error.strerror}") from error
        self._join(self._state.open(), far)
        try:
            await self._flush()
        except OSError as error:
            # The connection broke, and `run` has not seen it yet.
            await asyncio.gather(near.close(), far.close())
            raise Unavailable(
                "the tunnel to the container is down; try again in a moment"
            ) from error
        return near

    async def close(self) -> None:
        """End the connection, so that `run` ends."""
        self._state.go_away()
        # The connection is broken already.
        with contextlib.suppress(OSError):
            await self._flush()
        self._pipe.writer.close()

    def _heed(self, event: yamux.Event) -> None:
        match event:
            case Opened(stream):
                self._streams[stream] = _Stream()
                self._start(self._take_in(stream))
            case Data(stream, data):
                found = self._streams.get(stream)
                if found is not None:
                    found.come.put_nowait(data)
            case WindowUpdate(stream):
                self._wake(stream)
            case Finished(stream):
                if stream in self._streams:
                    self._streams[stream].come.put_nowait(b"")
            case Reset(stream):
                if stream in self._streams:
                    self._streams[stream].is_over = True
                    self._streams[stream].come.put_nowait(b"")
                    self._wake(stream)
            case Pong() | GoneAway():
                pass

    def _wake(self, stream: int) -> None:
        if stream in self._streams:
            self._streams[stream].room.set()

    async def _take_in(self, stream: int) -> None:
        try:
            assert self._accept is not None
            pipe = await self._accept()
        except Unavailable:
            self._streams.pop(stream)
            self._state.reset(stream)
            await self._flush()
            return
        await self._carry(stream, pipe)

    def _join(self, stream: int, pipe: Pipe) -> None:
        self._streams[stream] = _Stream()
        self._start(self._carry(stream, pipe))

    def _start(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            await work

        task = asyncio.create_task(run(), name="stream of a tunnel")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, stream: int, pipe: Pipe) -> None:
        """Both ways; each may end alone, and both end when the connection breaks or the stream is
        given up.
        """
        ways = [
            asyncio.create_task(self._send(stream, pipe)),
            asyncio.create_task(self._deliver(stream, pipe)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await cancel_all(*ways)
            self._streams.pop(stream, None)
            self._state.reset(stream)
            # The connection is broken: the stream ends with it.
            with contextlib.suppress(OSError):
                await self._flush()
            await pipe.close()

    async def _send(self, stream: int, pipe: Pipe) -> None:
        mine = self._streams[stream]
        while data := await pipe.reader.read(CHUNK):
            while data:
                if mine.is_over:
                    raise BrokenPipeError
                taken = self._state.send(stream, data)
                data = data[taken:]
                await self._flush()
                if data:
                    mine.room.clear()
                    # A window update during the flush may have made room.
                    if not self._state.room(stream) and not mine.is_over:
                        await mine.room.wait()
        self._state.finish(stream)
        await self._flush()

    async def _deliver(self, stream: int, pipe: Pipe) -> None:
        mine = self._streams[stream]
        while data := await mine.come.get():
            pipe.writer.write(data)
            await pipe.writer.drain()
            self._state.consumed(stream, len(data))
            await self._flush()
        if mine.is_over:
            raise BrokenPipeError
        if pipe.writer.can_write_eof():
            pipe.writer.write_eof()

    async def _flush(self) -> None:
        # A TLS connection that was closed must not be written to: asyncio has no error for that.
        if self._pipe.writer.is_closing():
            raise ConnectionResetError
        if data := self._state.take():
            self._pipe.writer.write(data)
        await self._pipe.writer.drain()

    async def _watch(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(self._keepalive)
            if not self._heard:
                self._pipe.writer.close()
                return
            self._heard, number = False, number + 1
            self._state.ping(number)
            # A broken connection is noticed by its reader.
            with contextlib.suppress(OSError):
                await self._flush()
