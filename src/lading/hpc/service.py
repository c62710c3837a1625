"""HTTPS server of the HPC daemon: connections, authorization, bodies.

`endpoints` has the calls. Without the authorization nothing is disclosed: it is compared before the
path is examined or a body is read, in constant time. Bodies above 1 MiB are stored on disk, not in
memory. Source: docs/spec/hpc-daemon, section Network interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
import socket
import ssl
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from lading.core.errors import LadingError, Malformed, RequestError, TooLarge
from lading.core.hpc.daemon_document import DocumentStatus, jsend
from lading.core.protocols.connection_limits import Connection, HttpLimits
from lading.core.protocols.daemon_http import MOST_HEAD, RequestHead, Searchable, parse_head
from lading.core.protocols.http_head import END
from lading.net.acceptor import StreamServer
from lading.net.http_bodies import discard_body, read_chunks, read_sized, write_answer

# Bytes of a body: JSON in memory, forms with files on disk.
MOST_JSON = 1 << 20
# The files of a form go to disk: its limit is the limit of a large input, not of memory.
MOST_FORM = 16 << 30
# Seconds for receiving a request.
_BODY_TIME = 600.0
# Bytes that are searched at a time, and their overlap: more than the longest thing searched for.
_PIECE, _OVERLAP = 1 << 20, 1 << 8
LIMITS = HttpLimits(
    head_bytes=MOST_HEAD,
    idle_seconds=75.0,
    connections=64,
    connections_per_address=64,
    trusted=(),
    linger_bytes=16 << 20,
)
"""Limits of a daemon: its callers are few. All of its strangers together are no more than its
connections.
"""
_HEADERS = ("authorization", "www-authenticate")
_logger = logging.getLogger("lading.hpc")


@dataclass(frozen=True, slots=True)
class DaemonResponse:
    """Response to a call."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


Handler = Callable[[RequestHead, Searchable], Awaitable[DaemonResponse]]


def success(data: Mapping[str, Any]) -> DaemonResponse:
    """A successful response."""
    return DaemonResponse(200, jsend(DocumentStatus.SUCCESS, data))


def refusal(error: LadingError) -> DaemonResponse:
    """The answer to an error: 200 for logical failures, the error's own status for a bad
    request.
    """
    status = DocumentStatus.FAIL if isinstance(error, RequestError) else DocumentStatus.ERROR
    proper = error.status not in (400, 401, 404, 405, 413)
    return DaemonResponse(
        200 if proper else error.status, jsend(status, {"message": error.message})
    )


class DaemonService:
    """Serves connections until closed."""

    def __init__(
        self, handler: Handler, *, authorization: str, scratch: Path, limits: HttpLimits = LIMITS
    ) -> None:
        self._handler, self._scratch = handler, scratch
        self._right = _digest(authorization)
        self._limits = limits
        self._server = StreamServer(self._serve, limits, stream_limit=MOST_HEAD)

    async def open(self, host: str, port: int, *, context: ssl.SSLContext) -> int:
        """Listen; the port. Raises OSError."""
        self._server.start([_listen(host, port)], context=context)
        return self._server.port

    async def close(self) -> None:
        """Stop listening, and end the open connections."""
        await self._server.close()

    def is_authorized(self, headers: Mapping[str, str]) -> bool:
        """Whether one of the headers has the right value. All headers are compared, so that the
        time does not depend on the results.
        """
        right = False
        for name in _HEADERS:
            value = headers.get(name, "")
            bare = value[7:] if value[:7].lower() == "bearer " else value
            for candidate in (value, bare):
                right |= hmac.compare_digest(_digest(candidate), self._right)
        return right

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection
    ) -> None:
        # The client has disconnected, was too slow, or does not use TLS.
        with contextlib.suppress(OSError, ssl.SSLError, TimeoutError, asyncio.IncompleteReadError):
            while await self._answer_request(reader, writer, connection):
                now = asyncio.get_running_loop().time()
                self._server.table.wait(connection, now + self._limits.idle_seconds)

    async def _answer_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection
    ) -> bool:
        """Answer one request; whether another may follow on this connection."""
        keep, unread = False, 0
        try:
            # The server closes connections that send no head.
            head = parse_head((await reader.readuntil(END)).removesuffix(END))
            unread = self._limits.linger_bytes if head.length is None else head.length
            if not self.is_authorized(head.headers):
                answer = DaemonResponse(
                    401, jsend(DocumentStatus.FAIL, {"message": "Bad Authorization header"})
                )
            else:
                self._server.table.know(connection)
                self._server.table.serve(connection)
                answer, keep = await self._handle(head, reader, writer)
                unread = 0
        except TooLarge as error:
            answer = refusal(error)
        except LadingError as error:
            answer, unread = refusal(error), 0
        except asyncio.LimitOverrunError:
            answer = refusal(Malformed("the request's headers are too long"))
        async with asyncio.timeout(_BODY_TIME):
            await write_answer(writer, answer.status, answer.headers, answer.body, is_kept=keep)
        await discard_body(
            reader, min(unread, self._limits.linger_bytes), self._limits.head_seconds
        )
        return keep

    async def _handle(
        self, head: RequestHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[DaemonResponse, bool]:
        if head.headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        async with asyncio.timeout(_BODY_TIME), self._body(head, reader) as body:
            try:
                return await self._handler(head, body), head.keep_alive
            except LadingError as error:
                return refusal(error), head.keep_alive
            except OSError as error:
                message = (
                    f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror}"
                )
                _logger.error("%s %s: %s", head.method, head.path, message)
                return DaemonResponse(
                    200, jsend(DocumentStatus.ERROR, {"message": message})
                ), head.keep_alive
            except Exception:
                # One call that goes wrong must not end the daemon, or the code's supervision with
                # it.
                _logger.exception("%s %s", head.method, head.path)
                return DaemonResponse(
                    500,
                    jsend(
                        DocumentStatus.ERROR, {"message": "internal error; see the daemon's log"}
                    ),
                ), False

    @asynccontextmanager
    async def _body(
        self, head: RequestHead, reader: asyncio.StreamReader
    ) -> AsyncIterator[Searchable]:
        form = head.headers.get("content-type", "").lower().startswith("multipart/")
        most = MOST_FORM if form else MOST_JSON
        if (head.length or 0) > most:
            raise TooLarge(f"the body is longer than {most} bytes")
        with tempfile.SpooledTemporaryFile(max_size=MOST_JSON, dir=str(self._scratch)) as file:
            size = 0
            async with aclosing(_chunks(head, reader)) as chunks:
                async for chunk in chunks:
                    size += len(chunk)
                    if size > most:
                        raise TooLarge(f"the body is longer than {most} bytes")
                    file.write(chunk)
            file.seek(0)
            yield file.read() if size <= MOST_JSON else FileBody(cast(IO[bytes], file), size)


class FileBody:
    """A body on disk that is read in pieces: a mapped file would count as memory of the daemon.

    The file object is read and not its descriptor: a read after its end raises ValueError and does
    not give the bytes of another file.
    """

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._size = file, size
        self._base, self._data = -1, b""

    def __len__(self) -> int:
        """Bytes of the body."""
        return self._size

    def __getitem__(self, index: slice, /) -> bytes:
        """Some of the bytes. Raises OSError, ValueError after the file's end."""
        start, stop, _ = index.indices(self._size)
        self._file.seek(start)
        return self._file.read(max(0, stop - start))

    def find(self, sub: bytes, start: int = 0, /) -> int:
        """Offset of the next `sub`, or -1. Raises OSError, ValueError after the file's end."""
        for base in range(start // _PIECE * _PIECE, self._size, _PIECE):
            found = self._piece(base).find(sub, max(0, start - base))
            if found >= 0:
                return base + found
        return -1

    def _piece(self, base: int) -> bytes:
        """The bytes from there on; kept, since the next search mostly begins in the same piece."""
        if base != self._base:
            self._data = self[base : base + _PIECE + _OVERLAP]
            self._base = base
        return self._data


def _chunks(head: RequestHead, reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    return read_chunks(reader) if head.length is None else read_sized(reader, head.length)


def _listen(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def _digest(value: str) -> bytes:
    # Hashes have equal lengths for any input.
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()
