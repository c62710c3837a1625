"""Connections taken in by one mechanism for all servers: counted, limited in time, dropped.

A TLS handshake counts as waiting, so it ends in time or gives way to a newcomer like any other
stranger. What is admitted and what is dropped says `core.protocols.connection_limits`. Standard
library only: the HPC daemon uses this.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from lading.core.protocols.connection_limits import (
    LOCAL,
    NEVER,
    Connection,
    ConnectionTable,
    HttpLimits,
)

_AT_ONCE: Final = 64
"""Connections accepted in one pass of the loop: other work waits for no more."""
_PAUSE: Final = 0.2
_PERIOD: Final = 0.1
"""Seconds between two looks for overdue connections, at least."""
_QUIET: Final = 1.0
"""Seconds between two warnings."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_logger = logging.getLogger("lading.connections")

MakeProtocol = Callable[[Connection], asyncio.BaseProtocol]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Connection], Awaitable[None]]


class Acceptor:
    """Takes in the connections of some listening sockets. `table` may be shared by several."""

    def __init__(
        self, table: ConnectionTable, make: MakeProtocol, *, context: ssl.SSLContext | None = None
    ) -> None:
        self.table = table
        self._make = make
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._listening: list[socket.socket] = []
        self._tasks: dict[Connection, asyncio.Task[None]] = {}
        self._transports: dict[Connection, asyncio.Transport] = {}
        self._resuming: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._sweep_at = NEVER
        self._warned_at = -_QUIET

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """The sockets that are listened at."""
        return tuple(self._listening)

    def listen(self, sockets: Sequence[socket.socket]) -> None:
        """Take in what comes to these sockets, which listen already."""
        for one in sockets:
            one.setblocking(False)
            self._listening.append(one)
        self.table.listeners.append(self._note_deadline)
        self._resume()

    def close(self) -> None:
        """Take no more in; close the sockets. Open connections go on, also limited in time."""
        for one in self._listening:
            self._loop.remove_reader(one.fileno())
            one.close()
        self._listening.clear()
        for task in self._tasks.values():
            task.cancel()
        if self._resuming is not None:
            self._resuming.cancel()
        self._stop_sweeping()

    async def wait_closed(self) -> None:
        """Wait until no handshake is under way any more."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def drop(self, connection: Connection) -> None:
        """End a connection at once."""
        self.release(connection, keep_transport=True)
        task = self._tasks.get(connection)
        if task is not None:
            task.cancel()
        transport = self._transports.pop(connection, None)
        if transport is not None:
            # In some releases of Python 3.11 a TLS transport that was closed twice has nothing left
            # to abort.
            with contextlib.suppress(AttributeError):
                transport.abort()
        self._stop_sweeping()

    def release(self, connection: Connection, *, keep_transport: bool = False) -> None:
        """The connection has ended."""
        self.table.release(connection)
        if not keep_transport:
            self._transports.pop(connection, None)
            self._stop_sweeping()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._relieve(error)
                return
            accepted.setblocking(False)
            is_remote = listening.family in (socket.AF_INET, socket.AF_INET6)
            if is_remote:
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._admit(accepted, str(peer[0]) if is_remote else LOCAL)

    def _admit(self, accepted: socket.socket, address: str) -> None:
        connection, dropped = self.table.admit(address, self._loop.time())
        if connection is None or dropped is not None:
            self._warn(address, "refused" if connection is None else "took the place of a stranger")
        if dropped is not None:
            self.drop(dropped)
        if connection is None:
            accepted.close()
            return
        self._tasks[connection] = self._loop.create_task(
            self._open(connection, accepted), name="connection"
        )

    async def _open(self, connection: Connection, accepted: socket.socket) -> None:
        handshake = self.table.limits.head_seconds if self._context is not None else None
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                functools.partial(self._make, connection),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=handshake,
            )
        except (OSError, TimeoutError):
            # No handshake, or none in time; SSLError is an OSError.
            self.release(connection)
            accepted.close()
        except asyncio.CancelledError:
            self.release(connection)
            accepted.close()
            raise
        else:
            self._transports[connection] = transport
            if transport.is_closing():
                self.drop(connection)
        finally:
            del self._tasks[connection]

    def _relieve(self, error: OSError) -> None:
        """Make room where the system has none for another connection, and wait a little."""
        if error.errno not in _EXHAUSTED:
            _logger.warning("connection not taken in: %s", error.strerror)
            return
        _logger.error("no connection can be taken in: %s", error.strerror)
        for one in self._listening:
            self._loop.remove_reader(one.fileno())
        longest = self.table.longest_waiting()
        if longest is not None:
            self.drop(longest)
        self._resuming = self._loop.call_later(_PAUSE, self._resume)

    def _resume(self) -> None:
        for one in self._listening:
            self._loop.add_reader(one.fileno(), self._accept, one)

    def _note_deadline(self, deadline: float) -> None:
        """Look for overdue connections then; not often, and not at all when nothing is limited in
        time.
        """
        if deadline < self._sweep_at:
            if self._sweeping is not None:
                self._sweeping.cancel()
            self._sweep_at = max(deadline, self._loop.time() + _PERIOD)
            self._sweeping = self._loop.call_at(self._sweep_at, self._sweep)

    def _sweep(self) -> None:
        self._sweeping, self._sweep_at = None, NEVER
        for one in self.table.overdue(self._loop.time()):
            if one in self._transports or one in self._tasks:
                self.drop(one)
        self._note_deadline(self.table.next_deadline())

    def _stop_sweeping(self) -> None:
        """Sweep as long as there is anything to take in or to drop."""
        if (
            not self._listening
            and not self._transports
            and self._note_deadline in self.table.listeners
        ):
            self.table.listeners.remove(self._note_deadline)
            if self._sweeping is not None:
                self._sweeping.cancel()

    def _warn(self, address: str, what: str) -> None:
        now = self._loop.time()
        if now - self._warned_at >= _QUIET:
            self._warned_at = now
            _logger.warning("too many connections: one from %s %s", address, what)


class StreamServer:
    """Serves streams: `asyncio.start_server` with limits. `serve` has the connection to itself.

    `serve` tells the table when the peer is known, and when it waits for another request.
    """

    def __init__(self, serve: Serve, limits: HttpLimits, *, stream_limit: int = 1 << 16) -> None:
        self._serve = serve
        self._stream_limit = stream_limit
        self.table = ConnectionTable(limits)
        self._acceptor: Acceptor | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The TCP port of the first socket."""
        assert self._acceptor is not None
        return int(self._acceptor.sockets[0].getsockname()[1])

    def start(
        self, sockets: Sequence[socket.socket], *, context: ssl.SSLContext | None = None
    ) -> None:
        """Serve on sockets that listen already."""
        self._acceptor = Acceptor(self.table, self._make, context=context)
        self._acceptor.listen(sockets)

    async def close(self) -> None:
        """Listen no more and end what is being served."""
        if self._acceptor is not None:
            self._acceptor.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._acceptor is not None:
            await self._acceptor.wait_closed()

    def _make(self, connection: Connection) -> asyncio.BaseProtocol:
        reader = asyncio.StreamReader(limit=self._stream_limit)

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            now = asyncio.get_running_loop().time()
            self.table.wait(connection, now + self.table.limits.head_seconds)
            task = asyncio.create_task(self._run(reader, writer, connection), name="stream")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return asyncio.StreamReaderProtocol(reader, begin)

    async def _run(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection
    ) -> None:
        assert self._acceptor is not None
        try:
            await self._serve(reader, writer, connection)
        finally:
            writer.close()
            # A peer that takes nothing more must not keep the connection.
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(self.table.limits.linger_seconds):
                    await writer.wait_closed()
            self._acceptor.drop(connection)
