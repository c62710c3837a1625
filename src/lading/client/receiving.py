"""Fast reception of blocks: the socket, or TLS, writes into a few reused buffers.

The HTTP library copies a body five times, each time into new memory. This module accepts only plain
responses: status 200 with a Content-Length. Other responses raise `Unusual`, and the caller repeats
the request with the HTTP library.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, cast, runtime_checkable

from lading.core.errors import Malformed
from lading.core.protocols import http_head
from lading.core.protocols.http_head import HttpHead
from lading.net.http_connections import CONNECT_TIMEOUT, IdleConnections
from lading.net.http_upgrade import Way

Sink = Callable[[memoryview], Awaitable[None]]
"""Consumer of the body, called with each piece; the memory is reused after it returns."""
# Bytes per buffer, and buffers per connection: one is filled while the others wait for the sink.
_PIECE = 1 << 20
_PIECES = 3


class Unusual(Exception):
    """The response cannot be received in this way."""


class Broken(Exception):
    """The connection failed, broke, or was silent for too long; `fault` is the cause."""

    def __init__(self, fault: OSError) -> None:
        super().__init__(str(fault))
        self.fault = fault


@runtime_checkable
class Receiving(Protocol):
    """A transport with fast reception."""

    async def receive(
        self, path: str, *, headers: Mapping[str, str], sink: Sink, timeout: float
    ) -> None:
        """GET `path`; give the body to `sink`. `timeout`: seconds between two pieces.

        Raises Unusual, Unavailable, and the errors of `sink`.
        """
        ...


class Receiver:
    """Connections to one server, reused for a few seconds; `name` is the header Host. Must be used
    within one event loop.
    """

    def __init__(self, way: Way, name: str) -> None:
        self._way = way
        self._name = name
        self._idle = IdleConnections(_Connection.is_usable, _Connection.abort)

    async def receive(
        self, path: str, *, headers: Mapping[str, str], sink: Sink, timeout: float
    ) -> None:
        """See Receiving. Raises Unusual, Broken, and the errors of `sink`."""
        head = HttpHead(f"GET {path} HTTP/1.1", (("Host", self._name), *headers.items())).encode()
        while (connection := self._idle.take()) is not None:
            try:
                return await self._exchange(connection, head, sink, timeout)
            except Broken:
                # The server closed the idle connection: try another one. Once a response has begun,
                # the sink has consumed bytes.
                if connection.has_begun:
                    raise
        return await self._exchange(await self._connect(timeout), head, sink, timeout)

    def close(self) -> None:
        """Close the idle connections."""
        self._idle.close()

    async def _exchange(
        self, connection: _Connection, head: bytes, sink: Sink, timeout: float
    ) -> None:
        try:
            await connection.get(head, sink, timeout)
        except BaseException:
            connection.abort()
            raise
        if connection.is_usable():
            self._idle.keep(connection)
        else:
            connection.abort()

    async def _connect(self, timeout: float) -> _Connection:
        try:
            return (await self._way.create(_Connection, timeout=min(timeout, CONNECT_TIMEOUT)))[1]
        except OSError as error:
            raise Broken(error) from error


class _Connection(asyncio.BufferedProtocol):
    """One connection, with one exchange at a time."""

    def __init__(self) -> None:
        self.has_begun = False
        """Whether a byte of the response to the last request arrived."""
        self._transport: asyncio.Transport | None = None
        self._is_kept = True
        self._fault: Exception | None = None
        self._in_head = True
        self._is_asked = self._is_paused = False
        self._wake = asyncio.Event()
        self._free = [memoryview(bytearray(_PIECE)) for _ in range(_PIECES)]
        self._full: deque[tuple[memoryview, int]] = deque()
        self._piece = self._free.pop()
        self._filled = 0
        # Bytes of the body still to come; -1 while the head is read.
        self._missing = -1

    def is_usable(self) -> bool:
        """Whether the connection can be used for another exchange."""
        return self._is_kept and self._transport is not None and not self._transport.is_closing()

    async def get(self, head: bytes, sink: Sink, timeout: float) -> None:
        """Send `head`, give the body to `sink`. Raises Unusual, Broken, the errors of `sink`."""
        if self._transport is None or self._transport.is_closing():
            raise Broken(ConnectionResetError("the connection was closed"))
        self.has_begun, self._in_head, self._filled, self._missing = False, True, 0, -1
        self._is_asked = True
        self._transport.write(head)
        while self._missing or self._full:
            if not self._full:
                await self._more(timeout)
                continue
            piece, size = self._full.popleft()
            await sink(piece[:size])
            self._free.append(piece)
            if self._is_paused:
                self._is_paused = False
                # Reading was paused because no buffer was free; the one just consumed is the next.
                if self._filled == len(self._piece):
                    self._next_piece()
                self._transport.resume_reading()
        self._is_asked, self._in_head = False, True

    async def _more(self, timeout: float) -> None:
        """Wait for data or the end of the connection. Raises Unusual, Broken."""
        if self._fault is not None:
            raise self._fault
        self._wake.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError as error:
            raise Broken(error) from error

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # Callbacks of the event loop (asyncio.BufferedProtocol).

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (the loop calls it so)
        """Memory for the next bytes."""
        if self._filled == len(self._piece):
            # Data may arrive after pause_reading(): the loop was reading already.
            self._free.append(memoryview(bytearray(_PIECE)))
            self._next_piece()
        # Not more than the body is offered, so that a response that is too long shows as an error.
        # The loop needs at least one byte.
        end = (
            len(self._piece)
            if self._in_head
            else min(len(self._piece), self._filled + self._missing)
        )
        return self._piece[self._filled : max(end, self._filled + 1)]

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` bytes arrived."""
        self._filled += nbytes
        self.has_begun = True
        if not self._is_asked:
            self._fail(Broken(ConnectionResetError("something came that was not asked for")))
            self.abort()
            return
        if not self._in_head:
            self._missing -= nbytes
        if self._in_head and not self._begin_body():
            return
        if self._missing < 0:
            self._fail(Broken(ConnectionResetError("more came than was announced")))
        elif not self._missing or self._filled == len(self._piece):
            self._full.append((self._piece, self._filled))
            self._wake.set()
            if self._free or not self._missing:
                self._next_piece()
            elif self._transport is not None:
                self._is_paused = True
                self._transport.pause_reading()

    def eof_received(self) -> None:
        """The server ended its side; `connection_lost` follows."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        lost = (
            exc
            if isinstance(exc, OSError)
            else ConnectionResetError("the connection ended before the answer")
        )
        self._fail(Broken(lost))

    def _fail(self, error: Exception) -> None:
        self._is_kept = False
        if self._fault is None:
            self._fault = error
        self._wake.set()

    def _next_piece(self) -> None:
        self._piece = self._free.pop() if self._free else memoryview(bytearray(_PIECE))
        self._filled = 0

    def _begin_body(self) -> bool:
        """Whether the head is complete; then the rest of the buffer is the beginning of the
        body.
        """
        received = bytes(self._piece[: min(self._filled, http_head.MOST)])
        end = received.find(http_head.END)
        if end < 0:
            if len(received) == http_head.MOST:
                self._fail(Unusual("the head of the answer is too long"))
            return False
        end += len(http_head.END)
        try:
            answer = http_head.parse_answer(received[:end])
        except Malformed as error:
            self._fail(Unusual(error.message))
            return False
        length, early = answer.get("content-length"), self._filled - end
        if (
            answer.status != 200
            or answer.get("content-encoding")
            or not (length.isascii() and length.isdigit())
        ):
            self._fail(Unusual(f"the answer is {answer.start}"))
            return False
        self._is_kept = not answer.says("connection", "close") and answer.start.startswith(
            "HTTP/1.1"
        )
        self._in_head, self._missing = False, int(length) - early
        # `bytes` makes a copy: source and target overlap.
        self._piece[:early] = bytes(self._piece[end : self._filled])
        self._filled = early
        return True
