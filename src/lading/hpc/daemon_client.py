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
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lading.core.errors import Corrupt, Malformed, Unavailable
from lading.hpc.plan import Identity
from lading.net.http_connections import HttpConnections, Outgoing, Sender
from lading.net.http_upgrade import Way

# The same as `daemon.PORT`.
PORT = 443
# Seconds for a call; ending the code may take longer.
_TIMEOUT = 10.0
# Longer than the 22 s that the daemon itself takes at most to end the code (`hpc.code`) with the
# grace of a daemon that was told none.
_KILL_TIME = 40.0
# Bytes of an answer; a daemon sends at most 4 MiB of a log.
_MOST_BODY = 64 << 20
# Bytes of a file that are sent at a time, and a second: slower is no progress.
_PIECE = 1 << 20
_SLOWEST = 1 << 20
_CODE = "/v1/code-configuration"


@dataclass(frozen=True, slots=True)
class DaemonReply:
    """Response of the daemon; `tag` is the entity tag of the state, "" without one."""

    status: int
    tag: str
    body: bytes


@dataclass(slots=True)
class DaemonClient:
    """Client of the daemon at `host`. Close it after `follow`."""

    host: str
    identity: Identity
    port: int = PORT
    _context: ssl.SSLContext = field(init=False, repr=False)
    _following: HttpConnections | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._context = ssl.create_default_context(cadata=self.identity.certificate)
        self._context.check_hostname = False

    def close(self) -> None:
        """Close the connection that `follow` uses."""
        if self._following is not None:
            self._following.close()
            self._following = None

    async def ask(self, path: str) -> dict[str, Any]:
        """The data of a GET. Raises Unavailable."""
        return self._data(await self._once("GET", path, b"", {}, _TIMEOUT))

    async def follow(self, tag: str, *, wait: float) -> tuple[str, dict[str, Any]]:
        """The state of the code as soon as it differs from `tag`, or after `wait` seconds.

        Also returns the entity tag to pass as `tag` next time. Raises Unavailable.
        """
        headers = {"If-None-Match": tag, "Prefer": f"wait={wait:.0f}"} if tag and wait else {}
        if self._following is None:
            self._following = self._connections()
        try:
            reply = await self._exchange(
                self._following, "GET", "/v1/query", b"", headers, wait + _TIMEOUT
            )
        except BaseException:
            self.close()
            raise
        return reply.tag, self._data(reply)

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
        kind = f"multipart/form-data; boundary={mark}"
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size

                async def send(outgoing: Outgoing) -> None:
                    await outgoing.write(head)
                    left = size
                    while left and (piece := await asyncio.to_thread(file.read, min(_PIECE, left))):
                        left -= len(piece)
                        await outgoing.write(piece)
                    await outgoing.write(tail)

                headers = {
                    "Content-Type": kind,
                    "Content-Length": str(len(head) + size + len(tail)),
                }
                seconds = _TIMEOUT + size / _SLOWEST
                self._data(await self._once("POST", _CODE, b"", headers, seconds, send=send))
        except OSError as error:
            raise Unavailable(f"{name}: cannot be read: {error.strerror}") from error

    async def command(self, word: str, *, grace: float = 0.0) -> dict[str, Any]:
        """Start, kill or upload; `grace`: seconds between TERM and KILL. Raises Unavailable."""
        return await self.tell("/v1/command", {"command": word}, timeout=_KILL_TIME + grace)

    async def log(self, name: str, offset: int) -> bytes:
        """Bytes of a log after `offset`, a part of them if there are many. Raises Unavailable."""
        reply = await self._once(
            "GET", f"/v1/logs/{name}", b"", {"Range": f"bytes={offset}-"}, _TIMEOUT
        )
        return reply.body if reply.status in (200, 206) else b""

    def _data(self, reply: DaemonReply) -> dict[str, Any]:
        try:
            document = json.loads(reply.body)
            data: dict[str, Any] = document["data"]
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(
                f"{self.host}: its daemon answered {reply.status} with a body that is no JSend"
            ) from error
        if document["status"] != "success":
            raise Unavailable(f"{self.host}: {data.get('message')}")
        return data

    async def _once(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeout: float,
        *,
        send: Sender | None = None,
    ) -> DaemonReply:
        """One request on a connection of its own. Raises Unavailable."""
        with closing(self._connections()) as connections:
            return await self._exchange(
                connections, method, path, body, headers, timeout, send=send
            )

    def _connections(self) -> HttpConnections:
        way = Way(host=self.host, port=self.port, tls=self._context)
        return HttpConnections(way, "daemon")

    async def _exchange(
        self,
        connections: HttpConnections,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeout: float,
        *,
        send: Sender | None = None,
    ) -> DaemonReply:
        fields = {"Authorization": self.identity.authorization, **headers}
        fields.setdefault("Content-Length", str(len(body)))
        asked = connections.exchange(method, path, fields, body, send=send, timeout=timeout)
        try:
            async with asyncio.timeout(timeout), asked as answer:
                content = await _read_all(answer.pieces)
        except (OSError, Malformed, Corrupt) as error:
            raise Unavailable(f"{self.host}: its daemon does not answer: {error}") from error
        return DaemonReply(answer.head.status, answer.head.get("etag"), content)


async def _read_all(pieces: AsyncGenerator[bytes]) -> bytes:
    """The body of an answer. Raises Corrupt for one that is too long."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > _MOST_BODY:
            raise Corrupt("the answer is too long")
    return bytes(body)
