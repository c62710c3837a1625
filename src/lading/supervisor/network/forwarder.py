"""TCP connections to a service, made by the supervisor for a container that cannot make them.

The bytes pass untouched: TLS is between the container and the service, whose certificate the
container verifies by the name that it has always known.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from functools import partial

from lading.core.container_network import Endpoint

MOST_CONNECTIONS = 1024
"""At a time, for one service of one container: a workflow runner has some ten."""
_CONNECT_TIME = 30.0
_CHUNK = 1 << 18
_PAUSE = 0.1


class Forwarder:
    """Takes connections at a socket that listens in the container's namespace."""

    def __init__(self, target: Endpoint, listening: socket.socket) -> None:
        self._target, self._listening = target, listening
        self._listening.setblocking(False)
        self._accepting: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin."""
        self._accepting = asyncio.create_task(self._accept(), name="forwarder")

    async def close(self) -> None:
        """End all connections. Idempotent."""
        ending = [*self._tasks, *([self._accepting] if self._accepting else [])]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self._listening.close()

    async def _accept(self) -> None:
        # Not asyncio's server: what that has accepted when it is closed goes on, and nobody owns it.
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except OSError:
                # Gone again, or no descriptors are left.
                await asyncio.sleep(_PAUSE)
                continue
            if len(self._tasks) >= MOST_CONNECTIONS:
                connection.close()
                continue
            reader, writer = await asyncio.open_connection(sock=connection, limit=_CHUNK)
            task = asyncio.create_task(self._take(reader, writer), name="forwarded")
            self._tasks.add(task)
            task.add_done_callback(partial(self._taken, writer))

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            await self._join(reader, writer)

    def _taken(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_CONNECT_TIME):
            their_reader, their_writer = await asyncio.open_connection(
                self._target.host, self._target.port, limit=_CHUNK
            )
        for one in (writer, their_writer):
            one.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        there = asyncio.create_task(_pour(reader, their_writer))
        back = asyncio.create_task(_pour(their_reader, writer))
        try:
            await asyncio.gather(there, back)
        finally:
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
            their_writer.close()


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes, then the end of it. Raises OSError."""
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
