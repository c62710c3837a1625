"""A small HTTP server for calls of operators and monitors: routes, forms, and answers in one piece.

The caller is checked by the head of a request, before its path or its body is looked at. Errors are
JSON: {"errors": [message]}. Connections have the limits of every server (`net.acceptor`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote

from lading.core.errors import (
    LadingError,
    Malformed,
    MethodNotAllowed,
    NotFound,
    TooLarge,
)
from lading.core.protocols import http_head
from lading.core.protocols.connection_limits import Connection, HttpLimits
from lading.core.protocols.http_head import HttpHead
from lading.net.acceptor import StreamServer
from lading.net.http_bodies import discard_body, read_chunks, read_sized, write_answer

LIMITS: Final = HttpLimits(connections=256, connections_per_address=64, linger_bytes=1 << 20)
"""Few call such a server."""
JSON_MEDIA: Final = "application/json"
# Bytes of the form of a request, and of its parameters.
_MOST_FORM: Final = 1 << 16
_MOST_PARAMETERS: Final = 100
_logger = logging.getLogger("lading.net.http_service")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """A request: `query` has the parameters of its address, `form` the fields of its body."""

    method: str
    path: str
    query: Mapping[str, str]
    form: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """The answer to a call."""

    body: bytes
    status: int = 200
    media: str = JSON_MEDIA


CallHandler = Callable[[HttpCall], Awaitable[HttpAnswer]]


class HttpService:
    """Serves `routes`, handlers by method and path, until closed. `check` raises the error for the
    head of a request that is not answered.
    """

    def __init__(
        self,
        routes: Mapping[tuple[str, str], CallHandler],
        *,
        check: Callable[[HttpHead], None],
        limits: HttpLimits = LIMITS,
    ) -> None:
        self._routes = routes
        self._paths = {path for _, path in routes}
        self._check = check
        self._limits = limits
        self._server = StreamServer(self._serve, limits, stream_limit=limits.head_bytes)

    async def open(self, host: str, port: int) -> int:
        """Listen at all addresses of a host; the port. Raises OSError."""
        self._server.start(await _listen(host, port))
        return self._server.port

    async def close(self) -> None:
        """Stop listening, and end all connections."""
        await self._server.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection
    ) -> None:
        # The client has left, or was too slow.
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            while await self._exchange(reader, writer, connection):
                now = asyncio.get_running_loop().time()
                self._server.table.wait(connection, now + self._limits.idle_seconds)

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection
    ) -> bool:
        """Answer one request; whether another may follow on this connection."""
        is_kept, is_head, unread = False, False, 0
        try:
            # The table closes connections that send no head.
            head = http_head.parse_request(await reader.readuntil(http_head.END))
            is_head = head.method == "HEAD"
            unread = self._limits.linger_bytes if _has_body(head) else 0
            self._check(head)
            self._server.table.know(connection)
            self._server.table.serve(connection)
            call = await self._read(head, reader, writer)
            unread = 0
            is_kept = head.start.endswith("/1.1") and not head.says("connection", "close")
            answer = await self._answer(call)
        except LadingError as error:
            answer = _refusal(error)
        except asyncio.LimitOverrunError:
            answer = _refusal(Malformed("the request's headers are too long"))
        async with asyncio.timeout(self._limits.stall_seconds):
            await write_answer(
                writer,
                answer.status,
                {"Content-Type": answer.media},
                answer.body,
                is_kept=is_kept,
                is_head=is_head,
            )
        await discard_body(reader, unread, self._limits.linger_seconds)
        return is_kept

    async def _read(
        self, head: HttpHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> HttpCall:
        if head.get("expect").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        async with asyncio.timeout(self._limits.head_seconds):
            body = await _read_body(head, reader)
        path, _, query = head.target.partition("?")
        return HttpCall(
            method="GET" if head.method == "HEAD" else head.method,
            path=unquote(path),
            query=_parameters(query),
            form=_parameters(body.decode("latin-1")),
        )

    async def _answer(self, call: HttpCall) -> HttpAnswer:
        handler = self._routes.get((call.method, call.path))
        if handler is None and call.path in self._paths:
            raise MethodNotAllowed(f"{call.method}: this address has other methods")
        if handler is None:
            raise NotFound(f"Path not found: {call.path[:60]!r}")
        try:
            return await handler(call)
        except LadingError as error:
            return _refusal(error)
        except Exception:  # the boundary of a call: one that goes wrong must not end the process
            _logger.exception("request failed path=%s", call.path)
            return _refusal(LadingError("internal error: see the log"))


def _has_body(head: HttpHead) -> bool:
    return head.get("content-length") not in ("", "0") or bool(head.get("transfer-encoding"))


async def _read_body(head: HttpHead, reader: asyncio.StreamReader) -> bytes:
    """The body of a request. Raises Malformed, TooLarge, IncompleteReadError, OSError."""
    length, body = head.get("content-length"), bytearray()
    if head.get("transfer-encoding").lower() not in ("", "chunked"):
        raise Malformed("Transfer-Encoding: only chunked is known")
    if int(length or 0) > _MOST_FORM:
        raise TooLarge(f"the body is longer than {_MOST_FORM} bytes")
    is_chunked = head.says("transfer-encoding", "chunked")
    chunks = read_chunks(reader) if is_chunked else read_sized(reader, int(length or 0))
    async with aclosing(chunks) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > _MOST_FORM:
                raise TooLarge(f"the body is longer than {_MOST_FORM} bytes")
    return bytes(body)


def _parameters(query: str) -> dict[str, str]:
    """The first value of each parameter. Raises Malformed."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError as error:
        raise Malformed(f"the request has more than {_MOST_PARAMETERS} parameters") from error
    return dict(reversed(pairs))


def _refusal(error: LadingError) -> HttpAnswer:
    body = json.dumps({"errors": [error.message]}, ensure_ascii=False, separators=(",", ":"))
    return HttpAnswer(body=body.encode(), status=error.status)


async def _listen(host: str, port: int) -> list[socket.socket]:
    loop, sockets = asyncio.get_running_loop(), list[socket.socket]()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            sockets.append(socket.create_server(address[:2], family=family))
    except OSError:
        for listening in sockets:
            listening.close()
        raise
    return sockets
