"""HTTP/1.1 exchanges of a client over connections to one server, which are kept for the next one.

A request with a body of any size is sent by a `Sender` while the response is awaited: a server may
respond before it has read all. A connection is kept when its response was read whole, and closed
otherwise. No redirects, no cookies, no proxies, no compression.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Generic, TypeVar

import msgspec

from lading.core.errors import Invalid, Malformed
from lading.core.protocols import http_head
from lading.core.protocols.http_head import HttpHead
from lading.net.http_bodies import read_body
from lading.net.http_upgrade import LIMIT, Way
from lading.net.pipes import Pipe, receive_head
from lading.process.concurrency import cancel_all

CONNECT_TIMEOUT = 20.0
"""Seconds: Linux repeats an unanswered handshake after 1, 3, 7 and 15 seconds (tcp(7))."""
_Connection = TypeVar("_Connection")
CONNECTIONS = 100
"""Connections at a time; further exchanges wait for one."""
# Seconds; below the five seconds after which the servers close idle connections, so that no request
# meets a closed one.
_IDLE = 4.0
# Requests with these methods may arrive twice (RFC 9110, section 9.2.2).
_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
# Informational responses before the real one.
_MOST_INTERIM = 10
# Bytes that the kernel moves from a file in one call, so that a time-out counts for each.
_FILE_PIECE = 8 << 20


class Outgoing:
    """The way of one request's body to the server; each write may take `timeout` seconds."""

    def __init__(self, writer: asyncio.StreamWriter, timeout: float) -> None:
        self._writer = writer
        self._timeout = timeout

    async def write(self, data: bytes | bytearray) -> None:
        """Send a piece. Raises OSError."""
        self._writer.write(data)
        async with asyncio.timeout(self._timeout):
            await self._writer.drain()

    async def send_file(self, descriptor: int, start: int, length: int) -> int:
        """Send a part of a file with sendfile(2); the number of bytes sent, which is less when the
        file ends. Raises OSError.
        """
        loop, done = asyncio.get_running_loop(), 0
        with os.fdopen(os.dup(descriptor), "rb", 0) as file:
            while done < length:
                wanted = min(_FILE_PIECE, length - done)
                async with asyncio.timeout(self._timeout):
                    sent = await loop.sendfile(self._writer.transport, file, start + done, wanted)
                done += sent
                if sent < wanted:
                    break
        return done


class IdleConnections(Generic[_Connection]):
    """Open connections to one server that the next exchanges use, for some seconds. Must be used
    within one event loop.
    """

    def __init__(
        self,
        is_open: Callable[[_Connection], bool],
        abort: Callable[[_Connection], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_open = is_open
        self._abort = abort
        self._clock = clock
        self._idle: list[tuple[float, _Connection]] = []

    def take(self) -> _Connection | None:
        """The connection that was used last, or None."""
        while self._idle:
            since, connection = self._idle.pop()
            if self._is_open(connection) and self._clock() - since < _IDLE:
                return connection
            self._abort(connection)
        return None

    def keep(self, connection: _Connection) -> None:
        """Let a further exchange use a connection."""
        self._idle.append((self._clock(), connection))

    def close(self) -> None:
        """Close all. Idempotent."""
        while self._idle:
            self._abort(self._idle.pop()[1])


Sender = Callable[[Outgoing], Awaitable[None]]
"""Sends a body, as the head of the request announces it."""


class Exchange(msgspec.Struct, frozen=True):
    """The response to a request: its head, and its body in pieces."""

    head: HttpHead
    pieces: AsyncGenerator[bytes]


class HttpConnections:
    """Connections to one server. Must be used within one event loop; `close` closes them.

    `name` is the header Host; at most `most` are open at a time.
    """

    def __init__(
        self,
        way: Way,
        name: str,
        *,
        most: int = CONNECTIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._way = way
        self._name = name
        self._room = asyncio.Semaphore(most)
        self._idle = IdleConnections(_is_open, abort, clock)

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        *,
        send: Sender | None = None,
        timeout: float,
    ) -> AsyncGenerator[Exchange]:
        """Send a request; the response is valid inside its `async with`.

        `timeout`: seconds without progress. Raises OSError (TimeoutError), Malformed for a response
        that is no HTTP, Corrupt for a body that breaks off, Invalid for a header that cannot be
        sent, and the errors of `send`.
        """
        request = encode_head(method, path, {"Host": self._name, **headers}) + body
        async with asyncio.timeout(timeout):
            await self._room.acquire()
        try:
            repeats = send is None and method in _REPEATABLE
            asked = await self._ask(request, send, timeout, repeats=repeats)
            try:
                async with aclosing(asked.read(method, timeout)) as pieces:
                    yield Exchange(asked.head, pieces)
            finally:
                await self._leave(asked)
        finally:
            self._room.release()

    def close(self) -> None:
        """Close the connections that are not in use. Idempotent."""
        self._idle.close()

    async def _ask(
        self, request: bytes, send: Sender | None, timeout: float, *, repeats: bool
    ) -> _Asked:
        """The head of the response, over a kept connection or a new one."""
        while (pipe := self._idle.take()) is not None:
            try:
                return await _ask(pipe, request, send, timeout)
            except TimeoutError:
                raise
            except OSError:
                # The server closed the kept connection meanwhile.
                if not repeats:
                    raise
        pipe = await self._way.connect(
            ConnectionReader(limit=LIMIT), timeout=min(timeout, CONNECT_TIMEOUT)
        )
        return await _ask(pipe, request, send, timeout)

    async def _leave(self, asked: _Asked) -> None:
        is_sent = True
        if asked.sending is not None:
            await cancel_all(asked.sending)
            is_sent = not asked.sending.cancelled() and asked.sending.exception() is None
        if is_sent and asked.is_whole and _is_kept(asked.head):
            self._idle.keep(asked.pipe)
        else:
            abort(asked.pipe)


class _Asked:
    """One exchange after the head of its response."""

    def __init__(
        self, pipe: Pipe, head: HttpHead, sending: asyncio.Task[None] | None = None
    ) -> None:
        self.pipe = pipe
        self.head = head
        self.sending = sending
        self.is_whole = False
        """Whether the body was read to its end."""

    async def read(self, method: str, timeout: float) -> AsyncGenerator[bytes]:
        async with aclosing(read_body(self.pipe.reader, self.head, method=method)) as pieces:
            while True:
                async with asyncio.timeout(timeout):
                    piece = await anext(pieces, None)
                if piece is None:
                    break
                yield piece
        self.is_whole = True


class ConnectionReader(asyncio.StreamReader):
    """A reader that returns the bytes from before a broken connection; the reader of asyncio drops
    them.
    """

    fault: Exception | None = None
    """Error that ended the connection, or None."""

    def set_exception(self, exc: Exception) -> None:
        """The connection broke; called by asyncio."""
        self.fault = exc
        self.feed_eof()


async def _ask(pipe: Pipe, request: bytes, send: Sender | None, timeout: float) -> _Asked:
    """Send a request and receive the head of its response; the connection is closed on errors."""
    tasks: tuple[asyncio.Task[Any], ...] = ()
    try:
        pipe.writer.write(request)
        if send is None:
            async with asyncio.timeout(timeout):
                return _Asked(pipe, await _receive(pipe.reader))
        sending = asyncio.create_task(_send(send, pipe, timeout), name="http body")
        reading = asyncio.create_task(_receive(pipe.reader), name="http answer")
        tasks = (sending, reading)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        fault = sending.exception() if sending.done() else None
        # After a broken connection there may still be a response, which says more.
        if fault is not None and (
            not isinstance(fault, OSError) or isinstance(fault, TimeoutError)
        ):
            raise fault
        try:
            async with asyncio.timeout(timeout):
                return _Asked(pipe, await reading, sending)
        except OSError as error:
            raise fault or error from error
    except BaseException:
        abort(pipe)
        await cancel_all(*tasks)
        raise


async def _send(send: Sender, pipe: Pipe, timeout: float) -> None:
    await send(Outgoing(pipe.writer, timeout))


async def _receive(reader: asyncio.StreamReader) -> HttpHead:
    """The head of the response. Raises OSError, Malformed."""
    for _ in range(_MOST_INTERIM):
        try:
            head = http_head.parse_answer(await receive_head(reader))
        except asyncio.IncompleteReadError as error:
            raise _fault_of(reader) from error
        if head.status >= 200 or head.status == 101:
            return head
    raise Malformed("HTTP: only informational responses came")


def _fault_of(reader: asyncio.StreamReader) -> Exception:
    """Error for a connection that ended before the response."""
    fault = reader.fault if isinstance(reader, ConnectionReader) else None
    if isinstance(fault, OSError):
        return fault
    return ConnectionResetError("the connection ended before the answer")


def _is_kept(head: HttpHead) -> bool:
    # A body without a length ends with its connection.
    has_end = bool(head.get("content-length") or head.get("transfer-encoding"))
    has_end = has_end or head.status in (204, 304)
    return has_end and head.start.startswith("HTTP/1.1") and not head.says("connection", "close")


def encode_head(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    """The head of a request. Raises Invalid."""
    # Bytes of UTF-8, each as one character of Latin-1, which the head is written in.
    fields = tuple((name, value.encode().decode("latin-1")) for name, value in headers.items())
    head = HttpHead(f"{method} {path.encode().decode('latin-1')} HTTP/1.1", fields).encode()
    try:
        # A line end in a value would make two headers of it.
        is_whole = len(http_head.parse_request(head).fields) == len(fields)
    except Malformed:
        is_whole = False
    if not is_whole:
        # Without the text: a header may contain a token.
        raise Invalid(f"{method}: a header or the address has a character that HTTP does not allow")
    return head


def _is_open(pipe: Pipe) -> bool:
    return not (pipe.reader.at_eof() or pipe.writer.transport.is_closing())


def abort(pipe: Pipe) -> None:
    """Close a connection at once."""
    pipe.writer.transport.abort()
