"""Transport of HTTP requests to a server.

No other module uses the HTTP library. Failures of the connection (refused, broken, timed out) raise
`Unavailable`; a response with an error status is returned. One transport keeps one session with its
pool of connections; the caller closes it. A request body may be a part of an open file
(`FilePart`), read while it is sent, or sent with sendfile(2).
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from lading.client.receiving import Broken, Receiver, ServerAddress, Sink
from lading.core.errors import Invalid, Unavailable, from_status
from lading.net.http_upgrade import trusting

Body = bytes | bytearray | AsyncIterable[bytes | bytearray]
DEFAULT_TIMEOUT = 300.0
# Bytes read or sent at a time.
_CHUNK = 1 << 18
_CONNECT_TIMEOUT = 20.0
# Connections at a time; further requests wait for one.
_CONNECTIONS = 100
# Seconds; below the five seconds after which the servers close idle connections, so that no request
# meets a closed one.
_IDLE = 4.0
# Headers that the library would add by itself.
_ADDED_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
# The library warns about larger bodies in one piece: the event loop would stand still while they
# are written.
_ONE_PIECE = 1 << 19


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class StreamedResponse:
    """A response whose body is still being received; valid inside its `async with`."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]

    async def read(self) -> bytes:
        """The rest of the body."""
        return b"".join([chunk async for chunk in self.chunks])


class WebSocket(Protocol):
    """An open websocket connection, text messages only."""

    async def send(self, text: str) -> None:
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

    async def close(self) -> None:
        """Close every connection. Idempotent."""


class HttpTransport:
    """HTTP/1.1 over TCP, TLS or a Unix socket, with reused connections.

    `base_url` is `https://host:port` or `http://host:port`. With `unix_socket`, connections go to
    that path and `base_url` only gives the Host header. `verify` is True (the machine's certificate
    authorities), False (no verification) or the path of a PEM file. Must be used within one event
    loop; `async with` closes it.
    """

    def __init__(
        self,
        base_url: str = "http://localhost",
        *,
        unix_socket: Path | str | None = None,
        verify: bool | Path = True,
    ) -> None:
        self._base = base_url.rstrip("/")
        self._unix_socket = None if unix_socket is None else str(unix_socket)
        self._verify = verify
        self._session: aiohttp.ClientSession | None = None
        self._receiver: Receiver | None = None

    @property
    def address(self) -> str:
        """Address of the server, for messages."""
        return self._unix_socket or self._base

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        limits = aiohttp.ClientTimeout(total=timeout, connect=min(timeout, _CONNECT_TIMEOUT))
        try:
            async with await self._send(method, path, headers, body, limits) as answer:
                return Response(answer.status, _lowered(answer.headers), await answer.read())
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
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
        limits = aiohttp.ClientTimeout(
            total=None, connect=min(timeout, _CONNECT_TIMEOUT), sock_read=timeout
        )
        try:
            answer = await self._send(method, path, headers, body, limits)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unavailable(error, timeout) from error
        try:
            yield StreamedResponse(
                answer.status, _lowered(answer.headers), self._chunks(answer, timeout)
            )
        finally:
            # An unread body would block the connection for its next user.
            answer.close()

    async def receive(
        self, path: str, *, headers: Mapping[str, str], sink: Sink, timeout: float
    ) -> None:
        """GET in pieces; see Receiving."""
        if self._receiver is None:
            self._receiver = Receiver(self._receiver_address())
        try:
            await self._receiver.receive(path, headers=headers, sink=sink, timeout=timeout)
        except Broken as error:
            raise self._unavailable(error.fault, timeout) from error.fault

    @asynccontextmanager
    async def websocket(
        self, path: str, *, headers: Mapping[str, str], timeout: float = DEFAULT_TIMEOUT
    ) -> AsyncGenerator[WebSocket]:
        """A websocket connection; see Transport."""
        limits = aiohttp.ClientWSTimeout(ws_receive=None, ws_close=1.0)
        try:
            async with asyncio.timeout(timeout):
                connection = await self._open().ws_connect(
                    self._url(path), headers=headers, timeout=limits
                )
        except aiohttp.WSServerHandshakeError as error:
            raise from_status(
                error.status, f"{self.address}: the websocket was refused ({error.status})"
            ) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unavailable(error, timeout) from error
        try:
            yield _AiohttpWebSocket(connection, self.address)
        finally:
            # The connection is given up anyway; a failure of the closing handshake does not matter.
            with suppress(aiohttp.ClientError, OSError):
                await connection.close()

    async def close(self) -> None:
        """Close every connection."""
        session, self._session = self._session, None
        if self._receiver is not None:
            self._receiver.close()
        if session is not None:
            await session.close()

    async def _send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Body,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        data: Body | _Sent | None = body
        # sendfile(2) to a socket of this machine; over TLS the bytes must pass through this
        # process.
        if isinstance(body, FilePart) and body.length and self._unix_socket is not None:
            data = _Sent(body)
        elif isinstance(body, bytes | bytearray):
            data = body or None
            if len(body) > _ONE_PIECE:
                headers, data = {**headers, "Content-Length": str(len(body))}, _pieces(body)
        return await self._open().request(
            method,
            self._url(path),
            headers=headers,
            data=data,
            timeout=limits,
            allow_redirects=False,
        )

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                # No cookies, and no proxies from the environment: the token goes to this server
                # only.
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_ADDED_HEADERS,
                trust_env=False,
            )
        return self._session

    def _connector(self) -> aiohttp.BaseConnector:
        if self._unix_socket is not None:
            return aiohttp.UnixConnector(
                self._unix_socket, limit=_CONNECTIONS, keepalive_timeout=_IDLE
            )
        verify: bool | ssl.SSLContext = self._verify is True
        if isinstance(self._verify, Path):
            verify = ssl.create_default_context(cafile=str(self._verify))
        return aiohttp.TCPConnector(ssl=verify, limit=_CONNECTIONS, keepalive_timeout=_IDLE)

    def _receiver_address(self) -> ServerAddress:
        url = URL(self._base)
        if self._unix_socket is not None:
            return ServerAddress(name=url.authority, unix_socket=self._unix_socket)
        authorities = self._verify if isinstance(self._verify, Path) else None
        tls = (
            trusting(authorities, insecure=self._verify is False) if url.scheme == "https" else None
        )
        return ServerAddress(name=url.authority, host=url.host or "", port=url.port or 0, tls=tls)

    def _url(self, path: str) -> URL:
        return URL(self._base + path, encoded=True)

    def _unavailable(self, error: Exception, timeout: float) -> Unavailable:
        if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
            return Unavailable(f"{self.address}: no answer within {timeout:g} s")
        return Unavailable(f"{self.address}: cannot be reached: {_reason(error)}")

    async def _chunks(
        self, answer: aiohttp.ClientResponse, timeout: float
    ) -> AsyncGenerator[bytes]:
        try:
            async for chunk in answer.content.iter_chunked(_CHUNK):
                yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unavailable(error, timeout) from error


class _AiohttpWebSocket:
    def __init__(self, connection: aiohttp.ClientWebSocketResponse, address: str) -> None:
        self._connection = connection
        self._address = address

    async def send(self, text: str) -> None:
        try:
            await self._connection.send_str(text)
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(
                f"{self._address}: the connection is gone: {_reason(error)}"
            ) from error

    async def receive(self, timeout: float) -> str | None:
        try:
            message = await self._connection.receive(timeout)
        except TimeoutError as error:
            raise Unavailable(f"{self._address}: nothing heard for {timeout:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            # The library answers pings here; this fails after a suspend of this machine, when the
            # connection is gone.
            raise Unavailable(
                f"{self._address}: the connection is gone: {_reason(error)}"
            ) from error
        return str(message.data) if message.type is aiohttp.WSMsgType.TEXT else None


class _Sent(aiohttp.Payload):
    """A part of a file that the kernel moves from its page cache to a Unix socket, without a copy
    in this process.
    """

    def __init__(self, part: FilePart) -> None:
        super().__init__(part)
        self._part = part
        self._size = part.length

    def decode(
        self,
        encoding: str = "utf-8",  # noqa: ARG002 - as the library has it
        errors: str = "strict",  # noqa: ARG002 - as the library has it
    ) -> str:
        """Not possible for a part of a file."""
        raise TypeError("a part of a file cannot be decoded")

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the head, then the part. Raises Invalid when the file is too short."""
        writer.send_headers()
        transport, part = writer.transport, self._part
        if transport is None:
            raise ConnectionResetError("the connection is gone")
        with os.fdopen(os.dup(part.descriptor), "rb", 0) as file:
            try:
                sent = await asyncio.get_running_loop().sendfile(
                    transport, file, part.start, part.length
                )
            except BrokenPipeError:
                # The server has responded and closed the connection; its response can still be
                # read.
                return
        if sent < part.length:
            raise shorter(part.start + sent)

    async def write_with_length(
        self,
        writer: AbstractStreamWriter,
        content_length: int | None,  # noqa: ARG002 - as the library has it
    ) -> None:
        """As `write`: the length is that of the part."""
        await self.write(writer)


async def _pieces(body: bytes | bytearray) -> AsyncGenerator[bytes]:
    view = memoryview(body)
    for start in range(0, len(view), _CHUNK):
        yield bytes(view[start : start + _CHUNK])


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(
        error, aiohttp.ClientSSLError
    ):
        number = error.os_error.errno or 0
        # Errors of name resolution have negative numbers; aiohttp and asyncio wrap all others in
        # text of their own.
        return os.strerror(number) if number > 0 else error.os_error.strerror or str(error)
    return " ".join(str(error).split()) or type(error).__name__


# Bytes read and sent at a time.
_SENT = 1 << 18


@dataclass(frozen=True, slots=True)
class FilePart:
    """`length` bytes from `start` of an open file; the descriptor must stay open.

    Iteration gives them in pieces, each in new memory; raises Invalid when the file is too short.
    """

    descriptor: int
    start: int
    length: int

    async def __aiter__(self) -> AsyncGenerator[bytes | bytearray]:
        done = 0
        while done < self.length:
            wanted, at = min(_SENT, self.length - done), self.start + done
            # The bytes were just hashed or written, so they are nearly always in memory, and a
            # thread would take longer than the read.
            part = _read_at_once(self.descriptor, wanted, at)
            part = part or await asyncio.to_thread(os.pread, self.descriptor, wanted, at)
            if not part:
                raise shorter(at)
            done += len(part)
            yield part


class Holes:
    """Ranges of an open file without data on disk, which read as zeros; queried in ascending
    order.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._data = 0
        """Offset of the next data, as far as known."""

    def cover(self, start: int, length: int) -> bool:
        """Whether a part is completely in a hole. Moves the position of the file."""
        if start >= self._data:
            try:
                self._data = os.lseek(self._descriptor, start, os.SEEK_DATA)
            except OSError as error:
                # ENXIO: no data up to the end of the file. Other errors: the file system does not
                # support SEEK_DATA, so all is data.
                self._data = (
                    os.fstat(self._descriptor).st_size if error.errno == errno.ENXIO else start
                )
        return start + length <= self._data


def shorter(length: int) -> Invalid:
    """The error for a file that became shorter while it was read."""
    return Invalid(f"the file has become shorter while it was read: {length} bytes are left")


def _read_at_once(descriptor: int, size: int, at: int) -> bytes | bytearray:
    """Bytes that are in memory and can be read without waiting for the disk; empty if none."""
    buffer = bytearray(size)
    try:
        count = os.preadv(descriptor, [buffer], at, os.RWF_NOWAIT)
    except OSError:
        # EAGAIN: not in memory; EOPNOTSUPP: the file system does not support RWF_NOWAIT.
        return b""
    return buffer if count == size else buffer[:count]
