"""The transport by which the page, the files and the tasks call the API of their own process.

Requests go over the local socket, as from any other client. Websockets are handed to the API
directly: each user with an open page has one, and over the socket the two ends of it take some
40 kB for buffers, parsers and heads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from lading.client.transport import DEFAULT_TIMEOUT, HttpTransport, WebSocket
from lading.core.errors import Unavailable, from_status
from lading.process.concurrency import SmallQueue, cancel_all

Message = MutableMapping[str, Any]
App = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]
# Messages on the way in one direction; a sender of more waits until one is taken.
_MOST: Final = 16
# Seconds for the application to end after the client has left.
_LINGER: Final = 5.0
_logger = logging.getLogger("lading.wiring.own_transport")
_CLOSED: Final[Message] = {"type": "websocket.close", "code": 1006}


class OwnTransport(HttpTransport):
    """Implements `client.transport.Transport` in the process whose API is the ASGI application
    `api`; `unix_socket` is the local socket of the same process.

    `most` is the number of connections that the server takes: readers who take long answers slowly
    hold one each, and must not let the requests of others wait.
    """

    def __init__(self, api: App, *, unix_socket: Path, most: int) -> None:
        super().__init__(unix_socket=unix_socket, most=most)
        self._api = api

    @asynccontextmanager
    async def websocket(
        self, path: str, *, headers: Mapping[str, str], timeout: float = DEFAULT_TIMEOUT
    ) -> AsyncGenerator[WebSocket]:
        """A websocket connection; see Transport."""
        connection = _OwnWebSocket()
        task = asyncio.create_task(
            connection.serve(self._api, _scope(path, headers)), name="websocket within the process"
        )
        try:
            await connection.open(timeout)
            yield connection
        finally:
            connection.leave()
            await asyncio.wait((task,), timeout=_LINGER)
            await cancel_all(task)


class _OwnWebSocket:
    """Both ends of one connection."""

    def __init__(self) -> None:
        self._to_api = SmallQueue[Message](_MOST)
        self._to_client = SmallQueue[Message](_MOST)
        self._is_over = False
        self._has_left = False

    async def serve(self, api: App, scope: Message) -> None:
        """Run the application until it ends."""
        try:
            await api(scope, self._to_api.get, self._give)
        except Exception:  # the boundary of a connection, as that of a server of HTTP
            _logger.exception("websocket within the process failed")
        finally:
            self._is_over = True
            await self._give(_CLOSED)

    async def open(self, timeout: float) -> None:
        """Wait until the application accepts. Raises Unavailable, and the error of the status with
        which it refuses.
        """
        await self._to_api.put({"type": "websocket.connect"})
        message = await self._next(timeout)
        if message["type"] != "websocket.accept":
            # A refused handshake has this status (ASGI, section Websocket, event Close).
            raise from_status(403, "the API refused the connection")

    async def send(self, message: str) -> None:
        """Send one message. Raises Unavailable when the connection is closed."""
        if self._is_over:
            raise Unavailable("the connection to the API is gone")
        await self._to_api.put({"type": "websocket.receive", "text": message})

    async def receive(self, timeout: float) -> str | None:
        """The next message; see `client.transport.WebSocket`."""
        if self._is_over and not self._to_client:
            return None
        message = await self._next(timeout)
        return None if message["type"] == "websocket.close" else str(message["text"])

    def leave(self) -> None:
        """Tell the application that the client has left; what it still sends is dropped."""
        self._is_over = self._has_left = True
        # The application may wait to be heard, or for the client to speak.
        self._to_client.clear()
        self._to_api.clear()
        self._to_api.put_at_once({"type": "websocket.disconnect", "code": 1000})

    async def _next(self, timeout: float) -> Message:
        try:
            async with asyncio.timeout(timeout):
                return await self._to_client.get()
        except TimeoutError as error:
            raise Unavailable(f"the API: nothing heard for {timeout:g} s") from error

    async def _give(self, message: Message) -> None:
        if not self._has_left:
            await self._to_client.put(message)


def _scope(path: str, headers: Mapping[str, str]) -> Message:
    raw, _, query = path.partition("?")
    return {
        "type": "websocket",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "ws",
        "path": unquote(raw),
        "raw_path": raw.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "server": ("localhost", 80),
        # No address: the caller is this process, as on the local socket.
        "client": None,
        "subprotocols": [],
    }
