"""Client of the daemon of one rank.

The certificate is pinned and its name is not checked: nobody else has the key. The state is
followed over one connection, on which the daemon answers when there is a change: a TLS handshake
for each query would cost the daemon more than all other work.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import h11

from lading.core.errors import Unavailable
from lading.hpc.plan import Identity

# The same as `daemon.PORT`.
PORT = 443
# Seconds for a call; ending the code may take longer.
_TIMEOUT = 10.0
# Longer than the 22 s that the daemon itself takes at most to end the code (`hpc.code`).
_KILL_TIME = 40.0
# Bytes read at a time: most answers have a few hundred.
_CHUNK = 1 << 16
# Bytes of an answer; a daemon sends at most 4 MiB of a log.
_MOST_BODY = 64 << 20
# Bytes of a file that are sent at a time, and a second: slower is no progress.
_PIECE = 1 << 20
_SLOWEST = 1 << 20
_CODE = "/v1/code-configuration"
_Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class DaemonReply:
    """Response of the daemon; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Body:
    """The body of a request: its bytes, piece by piece, and their number."""

    size: int
    pieces: AsyncGenerator[bytes]


async def _whole(data: bytes) -> AsyncGenerator[bytes]:
    yield data


@dataclass(slots=True)
class DaemonClient:
    """Client of the daemon at `host`. Close it after `follow`."""

    host: str
    identity: Identity
    port: int = PORT
    _context: ssl.SSLContext = field(init=False, repr=False)
    _line: _Line | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._context = ssl.create_default_context(cadata=self.identity.certificate)
        self._context.check_hostname = False

    def close(self) -> None:
        """Close the connection that `follow` uses."""
        line, self._line = self._line, None
        if line is not None:
            line[1].transport.abort()

    async def ask(self, path: str) -> dict[str, Any]:
        """The data of a GET. Raises Unavailable."""
        return self._data(await self._once("GET", path, b"", {}, _TIMEOUT))

    async def follow(self, known: str, *, wait: float) -> tuple[str, dict[str, Any]]:
        """The state of the code as soon as it differs from `known`, or after `wait` seconds.

        Also returns the entity tag to pass as `known` next time. Raises Unavailable.
        """
        headers = {"If-None-Match": known, "Prefer": f"wait={wait:.0f}"} if known and wait else {}
        line, self._line = self._line, None
        try:
            if line is None:
                line = await self._connect()
            reply = await self._exchange(line, "GET", "/v1/query", b"", headers, wait + _TIMEOUT)
        except BaseException:
            # A reply that is cut off would be taken for that of the next call.
            if line is not None:
                line[1].transport.abort()
            raise
        self._line = line
        return reply.headers.get("etag", ""), self._data(reply)

    async def tell(
        self, path: str, body: Mapping[str, Any], *, timeout: float = _TIMEOUT
    ) -> dict[str, Any]:
        """The data of a POST of JSON. Raises Unavailable, with its message when the daemon
        refuses.
        """
        kind = {"Content-Type": "application/json"}
        return self._data(await self._once("POST", path, json.dumps(body).encode(), kind, timeout))

    async def put_file(self, name: str, path: Path) -> None:
        """Give the code a file of this machine, which it may change. Raises Unavailable."""
        mark = f"lading-{secrets.token_hex(16)}"
        named = f"form-data; name=\"file\"; filename*=UTF-8''{quote(name, safe='')}"
        head = f"--{mark}\r\nContent-Disposition: {named}\r\n\r\n".encode()
        tail = f"\r\n--{mark}--\r\n".encode()
        kind = {"Content-Type": f"multipart/form-data; boundary={mark}"}
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size

                async def pieces() -> AsyncGenerator[bytes]:
                    yield head
                    left = size
                    while left and (piece := await asyncio.to_thread(file.read, min(_PIECE, left))):
                        left -= len(piece)
                        yield piece
                    yield tail

                body = _Body(len(head) + size + len(tail), pieces())
                seconds = _TIMEOUT + size / _SLOWEST
                self._data(await self._once("POST", _CODE, body, kind, seconds))
        except OSError as error:
            raise Unavailable(f"{name}: cannot be read: {error.strerror}") from error

    async def command(self, word: str) -> dict[str, Any]:
        """Start, kill or upload. Raises Unavailable."""
        return await self.tell("/v1/command", {"command": word}, timeout=_KILL_TIME)

    async def log(self, name: str, offset: int) -> bytes:
        """Bytes of a log after `offset`, a part of them if there are many. Raises Unavailable."""
        reply = await self._once(
            "GET", f"/v1/logs/{name}", b"", {"Range": f"bytes={offset}-"}, _TIMEOUT
        )
        return reply.body if reply.status in (200, 206) else b""

    def _data(self, reply: DaemonReply) -> dict[str, Any]:
        try:
            said = json.loads(reply.body)
            data: dict[str, Any] = said["data"]
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(
                f"{self.host}: its daemon answered {reply.status} with a body that is no JSend"
            ) from error
        if said["status"] != "success":
            raise Unavailable(f"{self.host}: {data.get('message')}")
        return data

    async def _once(
        self,
        method: str,
        path: str,
        body: bytes | _Body,
        headers: Mapping[str, str],
        timeout: float,
    ) -> DaemonReply:
        """One request on a connection of its own. Raises Unavailable."""
        line = await self._connect()
        try:
            return await self._exchange(
                line, method, path, body, {**headers, "Connection": "close"}, timeout
            )
        finally:
            line[1].transport.abort()

    async def _connect(self) -> _Line:
        try:
            async with asyncio.timeout(_TIMEOUT):
                return await asyncio.open_connection(self.host, self.port, ssl=self._context)
        except OSError as error:
            raise Unavailable(f"{self.host}: its daemon does not answer: {error}") from error

    async def _exchange(
        self,
        line: _Line,
        method: str,
        path: str,
        body: bytes | _Body,
        headers: Mapping[str, str],
        timeout: float,
    ) -> DaemonReply:
        reader, writer = line
        connection = h11.Connection(h11.CLIENT)
        sent = body if isinstance(body, _Body) else _Body(len(body), _whole(body))
        fields = {
            "Host": "daemon",
            "Authorization": self.identity.authorization,
            "Content-Length": str(sent.size),
            **headers,
        }
        try:
            async with asyncio.timeout(timeout):
                request = h11.Request(method=method, target=path, headers=list(fields.items()))
                writer.write(connection.send(request) or b"")
                async with aclosing(sent.pieces) as pieces:
                    async for piece in pieces:
                        writer.write(connection.send(h11.Data(data=piece)) or b"")
                        await writer.drain()
                writer.write(connection.send(h11.EndOfMessage()) or b"")
                await writer.drain()
                return await _read_reply(connection, reader)
        except (OSError, h11.ProtocolError) as error:
            raise Unavailable(f"{self.host}: its daemon does not answer: {error}") from error


async def _read_reply(connection: h11.Connection, reader: asyncio.StreamReader) -> DaemonReply:
    """The answer to the request that was sent. Raises h11.RemoteProtocolError, OSError."""
    status, headers, body = 0, dict[str, str](), bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.Response):
            status = event.status_code
            headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > _MOST_BODY:
                raise h11.RemoteProtocolError("the answer is too long")
        elif isinstance(event, h11.EndOfMessage):
            return DaemonReply(status, headers, bytes(body))
