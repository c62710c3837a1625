"""Accepts the connections of all servers: counts them, limits waiting ones, drops them.

A TLS handshake counts as waiting: it ends in time or gives way to a new connection, as other
unauthenticated connections do. `core.protocols.connection_limits` decides which connections are
admitted and dropped. An application finds its client's connection (`Peer`) in the ASGI scope.
Standard library only: the HPC daemon uses this.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from lading.core.errors import Unavailable
from lading.core.protocols.connection_limits import (
    LOCAL,
    NEVER,
    Connection,
    ConnectionTable,
    HttpLimits,
)

# Connections accepted in one pass of the event loop, so that other work is not delayed.
_AT_ONCE: Final = 64
# Seconds without accepting after the system had no room for a connection.
_PAUSE: Final = 0.2
# Seconds between two checks for overdue connections, at least.
_PERIOD: Final = 0.1
# Seconds between two warnings.
_QUIET: Final = 1.0
# Errors of accept(2) that mean so.
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_logger = logging.getLogger("lading.connections")

MakeProtocol = Callable[[Connection], asyncio.BaseProtocol]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Connection], Awaitable[None]]
FindUser = Callable[[str], Awaitable[str]]
"""The user whom connections with a token count for; "" for none."""
PEER: Final = "lading.peer"
"""The key of the `Peer` in the state of a request's or websocket's scope."""


class Acceptor:
    """Accepts the connections of some listening sockets. Acceptors may share a `table`."""

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
        """The listening sockets."""
        return tuple(self._listening)

    def listen(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections of these sockets, which listen already."""
        for listener in sockets:
            listener.setblocking(False)
            self._listening.append(listener)
        self.table.listeners.append(self._note_deadline)
        self._resume()

    def close(self) -> None:
        """Close the listening sockets. Open connections go on, with the same time limits."""
        for listener in self._listening:
            self._loop.remove_reader(listener.fileno())
            listener.close()
        self._listening.clear()
        for task in self._tasks.values():
            task.cancel()
        if self._resuming is not None:
            self._resuming.cancel()
        self._stop_sweeping()

    async def wait_closed(self) -> None:
        """Wait for the end of all handshakes."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def drop(self, connection: Connection) -> None:
        """End a connection at once."""
        self.release(connection, keep_transport=True)
        task = self._tasks.get(connection)
        if task is not None:
            task.cancel()
        transport = self._transports.pop(connection, None)
        if transport is not None:
            # In some releases of Python 3.11 `abort` fails for a TLS transport that was closed
            # twice.
            with contextlib.suppress(AttributeError):
                transport.abort()
        self._stop_sweeping()

    def release(self, connection: Connection, *, keep_transport: bool = False) -> None:
        """Remove an ended connection from the table."""
        self.table.release(connection)
        if not keep_transport:
            self._transports.pop(connection, None)
            self._stop_sweeping()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                # The client has gone, or another process accepted it.
                return
            except OSError as error:
                self._relieve(error)
                return
            accepted.setblocking(False)
            is_remote = listening.family in (socket.AF_INET, socket.AF_INET6)
            if is_remote:
                # The second of two small writes would wait for the first one's acknowledgement.
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
            # The handshake failed or took too long; SSLError is an OSError.
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
        """After a failed accept: where the system has no room, drop a connection and pause."""
        if error.errno not in _EXHAUSTED:
            _logger.warning("connection not taken in: %s", error.strerror)
            return
        _logger.error("no connection can be taken in: %s", error.strerror)
        for listener in self._listening:
            self._loop.remove_reader(listener.fileno())
        longest = self.table.longest_waiting()
        if longest is not None:
            self.drop(longest)
        self._resuming = self._loop.call_later(_PAUSE, self._resume)

    def _resume(self) -> None:
        for listener in self._listening:
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    def _note_deadline(self, deadline: float) -> None:
        """Schedule a check for overdue connections; none when no connection has a deadline."""
        if deadline < self._sweep_at:
            if self._sweeping is not None:
                self._sweeping.cancel()
            self._sweep_at = max(deadline, self._loop.time() + _PERIOD)
            self._sweeping = self._loop.call_at(self._sweep_at, self._sweep)

    def _sweep(self) -> None:
        self._sweeping, self._sweep_at = None, NEVER
        for connection in self.table.overdue(self._loop.time()):
            if connection in self._transports or connection in self._tasks:
                self.drop(connection)
        self._note_deadline(self.table.next_deadline())

    def _stop_sweeping(self) -> None:
        """Stop the checks when there is nothing to accept or to drop."""
        if (
            not self._listening
            and not self._transports
            and self._note_deadline in self.table.listeners
        ):
            self.table.listeners.remove(self._note_deadline)
            if self._sweeping is not None:
                self._sweeping.cancel()

    def _warn(self, address: str, fault: str) -> None:
        now = self._loop.time()
        if now - self._warned_at >= _QUIET:
            self._warned_at = now
            _logger.warning("too many connections: one from %s %s", address, fault)


class StreamServer:
    """`asyncio.start_server` with limits. `serve` is called with the streams of each connection.

    `serve` notes in the table when the client is authenticated, and when it waits for a request.
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
        """Stop listening and end all connections."""
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
            # A client that reads no more must not keep the connection.
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(self.table.limits.linger_seconds):
                    await writer.wait_closed()
            self._acceptor.drop(connection)


class Peer:
    """One connection and the table of its server; `leave` is called when it has ended, `abort` ends
    it at once.
    """

    __slots__ = ("abort", "connection", "find_user", "leave", "table")

    def __init__(
        self,
        table: ConnectionTable,
        connection: Connection,
        leave: Callable[[], None] = lambda: None,
        abort: Callable[[], None] = lambda: None,
        find_user: FindUser | None = None,
    ) -> None:
        self.table = table
        self.connection = connection
        self.leave = leave
        self.abort = abort
        self.find_user = find_user


def note_known(scope: Mapping[str, Any]) -> None:
    """Note that the request of this scope was authenticated, where the server limits strangers."""
    peer = (scope.get("state") or {}).get(PEER)
    if peer is not None:
        peer.table.know(peer.connection)


def note_holder(scope: Mapping[str, Any], holder: str) -> None:
    """Count the connection of this scope for the user whose request is being answered on it, where
    the server limits users. Raises Unavailable when the user has too many.
    """
    peer = (scope.get("state") or {}).get(PEER)
    if peer is not None and not peer.table.hold(peer.connection, holder):
        most = peer.table.limits.connections_per_user
        raise Unavailable(
            f"{most} requests of this user are being answered on other connections, as many as "
            "API.MaxConnectionsPerUser allows; end some of them, or try again later"
        )


async def note_token(scope: Mapping[str, Any], token: str) -> None:
    """`note_holder` for the user of a token. Raises Unavailable."""
    peer = (scope.get("state") or {}).get(PEER)
    # Only connections that are counted need the look-up.
    if peer is None or peer.find_user is None or peer.connection.origin == LOCAL:
        return
    if token:
        note_holder(scope, await peer.find_user(token))


async def end(scope: Mapping[str, Any]) -> None:
    """End the connection of this scope at once; buffered bytes are dropped."""
    peer = (scope.get("state") or {}).get(PEER)
    if peer is not None:
        peer.abort()
        # The event loop reports the end to the server in its next pass.
        await asyncio.sleep(0)
