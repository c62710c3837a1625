"""TCP connections to a service, made by the supervisor for a container without access to it.

The bytes are not changed: TLS is between the container and the service, whose certificate the
container verifies by the service's own name.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket

from lading.core.containers.container_network import Endpoint

MOST_CONNECTIONS = 1024
"""Maximum at a time, for one service of one container: a workflow runner has some ten."""
# Seconds.
_CONNECT_TIME = 30.0
# Bytes read at a time.
_CHUNK = 1 << 18
# Seconds without accepting when no descriptors are free.
_REST = 0.1


class Forwarder:
    """Accepts connections at a listening socket in the container's namespace.

    At most `most` connections at a time; none is accepted for `rest` seconds after the process had
    no free descriptor.
    """

    def __init__(
        self,
        target: Endpoint,
        listening: socket.socket,
        *,
        most: int = MOST_CONNECTIONS,
        rest: float = _REST,
    ) -> None:
        self._most, self._rest = most, rest
        self._target, self._listening = target, listening
        self._listening.setblocking(False)
        self._tasks: set[asyncio.Task[None]] = set()
        self._fresh: set[socket.socket] = set()
        """Accepted connections that no task handles yet."""
        self._resting: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Start accepting."""
        # asyncio's server would leave the connections that it has accepted before it is closed
        # without an owner.
        self._listen()

    async def close(self) -> None:
        """End all connections. Idempotent."""
        if self._resting is not None:
            self._resting.cancel()
        if self._listening.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listening)
        ending = list(self._tasks)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for connection in (*self._fresh, self._listening):
            connection.close()
        self._fresh.clear()

    def _listen(self) -> None:
        asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection, _ = self._listening.accept()
        except BlockingIOError:
            # The client has gone already.
            return
        except OSError:
            # No descriptors are left, perhaps for a moment only.
            loop.remove_reader(self._listening)
            self._resting = loop.call_later(self._rest, self._listen)
            return
        if len(self._tasks) >= self._most:
            connection.close()
            return
        self._fresh.add(connection)
        task = asyncio.create_task(self._take(connection), name="forwarder")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, connection: socket.socket) -> None:
        self._fresh.discard(connection)
        # The container or the service has closed the connection.
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection(sock=connection, limit=_CHUNK)
            try:
                await self._join(reader, writer)
            finally:
                writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_CONNECT_TIME):
            their_reader, their_writer = await asyncio.open_connection(
                self._target.host, self._target.port, limit=_CHUNK
            )
        # Calls of an API are small messages that wait for each other.
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
    """Copy data, then its end. Raises OSError."""
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
