"""Transport of HTTP requests to a server.

Failures of the connection (refused, broken, timed out) raise `Unavailable`; a response with an
error status is returned. One transport keeps its connections; the caller closes it. A request body
may be a part of an open file (`FilePart`), read while it is sent, or sent with sendfile(2). The
HTTP is that of `net.http_connections`: an HTTP library takes 150 ms to import.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import urlsplit

import msgspec

from lading.client.receiving import Broken, Receiver, Sink
from lading.core.errors import Corrupt, LadingError, Malformed, Unavailable
from lading.net.http_connections import (
    CONNECTIONS,
    Exchange,
    HttpConnections,
    Outgoing,
    Sender,
)
from lading.net.http_upgrade import Way, switch, trusting
from lading.net.pipes import Pipe
from lading.net.proxies import Proxy
from lading.net.urls import is_secure, server_port

# Most calls of the command line listen to nothing.
if TYPE_CHECKING:
    from lading.net.websocket import WebSocketConnection
from lading.client.file_parts import FilePart, shorter

Body = bytes | bytearray | AsyncIterable[bytes | bytearray]
# As Arvados' clients: a server may need minutes for a large collection.
DEFAULT_TIMEOUT = 300.0
# Bytes sent at a time.
_CHUNK = 1 << 18
# A larger body is sent in pieces: the event loop would stand still while it is copied.
_ONE_PIECE = 1 << 19
# Methods whose requests have no body, and no length of it.
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
# Errors of connections that end before the whole response.
_FAULTS = (OSError, Malformed, Corrupt)


class Response(msgspec.Struct, frozen=True):
    """A complete response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class StreamedResponse(msgspec.Struct, frozen=True):
    """A response whose body is still being received; valid inside its `async with`."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]

    async def read(self) -> bytes:
        """The bytes of the body that were not read yet."""
        return b"".join([chunk async for chunk in self.chunks])


class WebSocket(Protocol):
    """An open websocket connection, text messages only."""

    async def send(self, message: str) -> None:
        """Send one message. Raises Unavailable when the connection is closed."""

    async def receive(self, timeout: float) -> str | None:
        """The next message; None after the server closed the connection. Raises Unavailable after
        `timeout` seconds.
        """


class Transport(Protocol):
    """Protocol of transports; paths start with `/` and include the encoded query."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Response:
        """One exchange with bodies in memory; `timeout`: seconds for all of it. Raises
        Unavailable.
        """

    def stream(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: Body = b"",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> AbstractAsyncContextManager[StreamedResponse]:
        """One exchange with bodies of any size; `timeout`: seconds between two pieces. Raises
        Unavailable.
        """

    def websocket(
        self, path: str, *, headers: Mapping[str, str], timeout: float = DEFAULT_TIMEOUT
    ) -> AbstractAsyncContextManager[WebSocket]:
        """A websocket connection; `timeout`: seconds for opening it.

        Raises Unavailable, or the error of the status with which the server refused.
        """

    async def switch(
        self, path: str, protocol: str, *, headers: Mapping[str, str], form: Mapping[str, str]
    ) -> Pipe:
        """A connection that has switched to another protocol (`net.http_upgrade.switch`); the
        caller closes it. Raises Unavailable, or the error of the status with which the server
        refused.
        """

    async def close(self) -> None:
        """Close every connection. Idempotent."""


class HttpTransport:
    """HTTP/1.1 over TCP, TLS or a Unix socket, with reused connections.

    `base_url` is `https://host:port` or `http://host:port`. With `unix_socket`, connections go to
    that path and `base_url` only gives the Host header. `verify` is True (the machine's certificate
    authorities), False (no verification), the path of a PEM file, or a TLS context. `proxy`: the
    way to an `https` address. Must be used within one event loop; `async with` closes it.
    """

    def __init__(
        self,
        base_url: str = "http://localhost",
        *,
        unix_socket: Path | str | None = None,
        verify: bool | Path | ssl.SSLContext = True,
        most: int = CONNECTIONS,
        proxy: Proxy | None = None,
    ) -> None:
        self._most = most
        self._proxy = proxy
        self._base = base_url.rstrip("/")
        self._host = self._base.partition("://")[2]
        self._unix_socket = None if unix_socket is None else str(unix_socket)
        self._verify = verify
        self._known_way: Way | None = None
        self._connections: HttpConnections | None = None
        self._receiver: Receiver | None = None

    @property
    def address(self) -> str:
        """Address of the server, for messages."""
        return self._unix_socket or self._base

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Response:
        """One exchange; see Transport."""
        try:
            async with asyncio.timeout(timeout):
                async with self._exchange(method, path, headers, body, timeout) as answer:
                    whole = b"".join([piece async for piece in answer.pieces])
                    return Response(answer.head.status, _lowered(answer), whole)
        except _FAULTS as error:
            raise self._unavailable(error, timeout) from error

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: Body = b"",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> AsyncGenerator[StreamedResponse]:
        """One exchange in pieces; see Transport."""
        async with AsyncExitStack() as opened:
            try:
                answer = await opened.enter_async_context(
                    self._exchange(method, path, headers, body, timeout)
                )
            except _FAULTS as error:
                raise self._unavailable(error, timeout) from error
            yield StreamedResponse(
                answer.head.status, _lowered(answer), self._chunks(answer, timeout)
            )

    async def receive(
        self, path: str, *, headers: Mapping[str, str], sink: Sink, timeout: float
    ) -> None:
        """GET in pieces; see Receiving."""
        if self._receiver is None:
            self._receiver = Receiver(self._way(), self._host)
        try:
            await self._receiver.receive(path, headers=headers, sink=sink, timeout=timeout)
        except Broken as error:
            raise self._unavailable(error.fault, timeout) from error.fault

    @asynccontextmanager
    async def websocket(
        self, path: str, *, headers: Mapping[str, str], timeout: float = DEFAULT_TIMEOUT
    ) -> AsyncGenerator[WebSocket]:
        """A websocket connection; see Transport."""
        from lading.net.websocket import open_websocket

        try:
            connection = await open_websocket(
                self._way(), self._host, path, headers, timeout=timeout
            )
        except (OSError, Malformed) as error:
            raise self._unavailable(error, timeout) from error
        try:
            yield _OpenWebSocket(connection, self.address)
        finally:
            await connection.close()

    async def switch(
        self, path: str, protocol: str, *, headers: Mapping[str, str], form: Mapping[str, str]
    ) -> Pipe:
        """A connection that has switched to another protocol; see Transport."""
        pipe = await self._way().open()
        await switch(pipe, path, protocol, host=self._host, headers=headers, form=form)
        return pipe

    async def close(self) -> None:
        """Close every connection."""
        if self._receiver is not None:
            self._receiver.close()
        if self._connections is not None:
            self._connections.close()

    def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: Body, timeout: float
    ) -> AbstractAsyncContextManager[Exchange]:
        if self._connections is None:
            self._connections = HttpConnections(self._way(), self._host, most=self._most)
        fields = {name.lower(): value for name, value in headers.items()}
        # The connections know no compression.
        fields.setdefault("accept-encoding", "identity")
        sent = b""
        send: Sender | None = None
        if isinstance(body, bytes | bytearray):
            if body or method not in _BODILESS:
                fields["content-length"] = str(len(body))
            if len(body) > _ONE_PIECE:
                send = _PiecesSender(_pieces(body), is_chunked=False)
            else:
                sent = bytes(body)
        elif isinstance(body, FilePart):
            fields["content-length"] = str(body.length)
            # Over TLS the bytes must pass through this process.
            send = _PartSender(body, by_kernel=self._unix_socket is not None)
        else:
            is_chunked = "content-length" not in fields
            if is_chunked:
                fields["transfer-encoding"] = "chunked"
            send = _PiecesSender(body, is_chunked=is_chunked)
        return self._connections.exchange(method, path, fields, sent, send=send, timeout=timeout)

    def _way(self) -> Way:
        if self._known_way is None:
            if self._unix_socket is not None:
                self._known_way = Way(unix_socket=self._unix_socket)
            else:
                url = urlsplit(self._base)
                self._known_way = Way(
                    host=url.hostname or "",
                    port=server_port(url),
                    tls=self._trusting() if is_secure(url) else None,
                    proxy=self._proxy,
                )
        return self._known_way

    def _trusting(self) -> ssl.SSLContext:
        if isinstance(self._verify, ssl.SSLContext):
            return self._verify
        authorities = self._verify if isinstance(self._verify, Path) else None
        return trusting(authorities, insecure=self._verify is False)

    def _unavailable(self, error: Exception, timeout: float) -> Unavailable:
        if isinstance(error, TimeoutError):
            return Unavailable(f"{self.address}: no answer within {timeout:g} s")
        return Unavailable(f"{self.address}: cannot be reached: {_reason(error)}")

    async def _chunks(self, answer: Exchange, timeout: float) -> AsyncGenerator[bytes]:
        try:
            async for piece in answer.pieces:
                yield piece
        except _FAULTS as error:
            raise self._unavailable(error, timeout) from error


class _OpenWebSocket:
    def __init__(self, connection: WebSocketConnection, address: str) -> None:
        self._connection = connection
        self._address = address

    async def send(self, message: str) -> None:
        try:
            await self._connection.send(message)
        except OSError as error:
            raise self._gone(error) from error

    async def receive(self, timeout: float) -> str | None:
        try:
            async with asyncio.timeout(timeout):
                return await self._connection.receive()
        except TimeoutError as error:
            raise Unavailable(f"{self._address}: nothing heard for {timeout:g} s") from error
        except (OSError, Malformed) as error:
            # Also where a ping cannot be answered, after a suspend of this machine.
            raise self._gone(error) from error

    def _gone(self, error: Exception) -> Unavailable:
        return Unavailable(f"{self._address}: the connection is gone: {_reason(error)}")


class _PiecesSender(msgspec.Struct, frozen=True):
    """Sends a body that comes in pieces, as chunks unless its length was announced."""

    pieces: AsyncIterable[bytes | bytearray]
    is_chunked: bool

    async def __call__(self, out: Outgoing) -> None:
        async for piece in self.pieces:
            if not self.is_chunked:
                await out.write(piece)
            elif piece:
                await out.write(b"%x\r\n%b\r\n" % (len(piece), bytes(piece)))
        if self.is_chunked:
            await out.write(b"0\r\n\r\n")


class _PartSender(msgspec.Struct, frozen=True):
    """Sends a part of a file; `by_kernel`: from its page cache to the socket, without a copy in
    this process.
    """

    file: FilePart
    by_kernel: bool

    async def __call__(self, out: Outgoing) -> None:
        file, sent = self.file, 0
        if self.by_kernel:
            try:
                sent = await out.send_file(file.descriptor, file.start, file.length)
            except NotImplementedError:
                # uvloop has no sendfile.
                pass
            else:
                if sent < file.length:
                    raise shorter(file.start + sent)
                return
        async for piece in file:
            await out.write(piece)


async def _pieces(body: bytes | bytearray) -> AsyncGenerator[bytes]:
    view = memoryview(body)
    for start in range(0, len(view), _CHUNK):
        yield bytes(view[start : start + _CHUNK])


def _lowered(answer: Exchange) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.head.fields}


def _reason(error: Exception) -> str:
    if isinstance(error, LadingError):
        return error.message
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.errno:
        # Errors of name resolution have negative numbers; asyncio wraps all others in text of its
        # own.
        return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)
    return " ".join(str(error).split()) or type(error).__name__
