"""ASGI applications in tests: called in this process, or served on a port or Unix socket.

`AsgiTransport` gives the whole client without a socket: bodies come in the pieces that a server
would read, paths are decoded as a server does, a websocket that is refused fails as one over the
network. An exception of the application is raised to the caller, as tests need it. `FlakyTransport`
loses messages. `serving` runs a real server in the loop of a test.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from socket import socket, socketpair
from typing import Any
from urllib.parse import unquote, urlencode

import uvicorn
from starlette.types import ASGIApp, Message, Scope

from lading.api.http import TAKE_OVER
from lading.client.transport import (
    DEFAULT_TIMEOUT,
    Body,
    Response,
    StreamedResponse,
    Transport,
    WebSocket,
)
from lading.core.errors import Unavailable, from_status
from lading.net.http_upgrade import LIMIT
from lading.net.pipes import Pipe

_PIECE = 1 << 16


class AsgiTransport:
    """Implements lading.client.transport.Transport over an ASGI application."""

    def __init__(self, app: ASGIApp, *, state: Mapping[str, Any] | None = None) -> None:
        self._app = app
        self._state = dict(state or {})
        self._sessions: set[asyncio.Task[None]] = set()

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Response:
        """One exchange; returns when the application has."""
        async with self.stream(method, path, headers=headers, body=body, timeout=timeout) as answer:
            return Response(answer.status, answer.headers, await answer.read())

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
        """One exchange in pieces; an application that still writes when the reader leaves is
        cancelled.
        """
        length = {"content-length": str(len(body))} if isinstance(body, bytes | bytearray) else {}
        exchange = _Exchange(_incoming(body), timeout)
        scope = self.scope("http", path, {**length, **headers})
        task = asyncio.create_task(exchange.run(self._app, {**scope, "method": method}))
        try:
            start = await exchange.next_message()
            yield StreamedResponse(start["status"], _decoded(start["headers"]), exchange.chunks())
        finally:
            if not exchange.complete:
                task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                if not task.cancelled():
                    raise

    @asynccontextmanager
    async def websocket(
        self, path: str, *, headers: Mapping[str, str], timeout: float = DEFAULT_TIMEOUT
    ) -> AsyncGenerator[WebSocket]:
        """A websocket connection; closing it disconnects the application."""
        connection = _AsgiWebSocket()
        task = asyncio.create_task(
            connection.run(self._app, self.scope("websocket", path, headers))
        )
        try:
            await connection.opened(timeout)
            yield connection
        finally:
            connection.disconnect()
            try:
                async with asyncio.timeout(60.0):
                    await task
            except TimeoutError as error:
                raise AssertionError(
                    "the application did not end after websocket.disconnect"
                ) from error

    async def switch(
        self, path: str, protocol: str, *, headers: Mapping[str, str], form: Mapping[str, str]
    ) -> Pipe:
        """A connection that the application takes over, as servers offer it; the application ends
        with the connection.
        """
        body = urlencode(form).encode()
        fields = {
            **headers,
            "connection": "upgrade",
            "upgrade": protocol,
            "content-type": "application/x-www-form-urlencoded",
            "content-length": str(len(body)),
        }
        exchange, taken = _Exchange(_incoming(body), DEFAULT_TIMEOUT), asyncio.Event()
        pipes: list[Pipe] = []

        async def take_over(head: bytes) -> Pipe:
            assert head.startswith(b"HTTP/1.1 101 ")
            for connection in socketpair():
                pipes.append(Pipe(*await asyncio.open_connection(sock=connection, limit=LIMIT)))
            taken.set()
            return pipes[1]

        scope = {**self.scope("http", path, fields), "extensions": {TAKE_OVER: take_over}}
        task = asyncio.create_task(exchange.run(self._app, {**scope, "method": "POST"}))
        self._sessions.add(task)
        task.add_done_callback(self._sessions.discard)
        waiting = asyncio.create_task(taken.wait())
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if taken.is_set():
            return pipes[0]
        start = await exchange.next_message()
        text = b"".join([piece async for piece in exchange.chunks()])
        await task
        raise from_status(start["status"], text.decode())

    async def close(self) -> None:
        """Wait for the applications that have taken over a connection."""
        await asyncio.gather(*self._sessions, return_exceptions=True)

    def scope(self, kind: str, path: str, headers: Mapping[str, str]) -> Scope:
        """The scope of a request or of a websocket."""
        raw, _, query = path.partition("?")
        lines = {"host": "localhost", **{name.lower(): value for name, value in headers.items()}}
        return {
            "type": kind,
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "scheme": "http" if kind == "http" else "ws",
            "path": unquote(raw),
            "raw_path": raw.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in lines.items()],
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 1),
            "subprotocols": [],
            "state": dict(self._state),
        }


class FlakyTransport:
    """Passes requests on, but loses some on the way there and some answers on the way back, by a
    seeded chance.
    """

    def __init__(self, inner: Transport, *, seed: int, loss: float = 0.3) -> None:
        self._inner = inner
        self._random = random.Random(seed)
        self._loss = loss

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Response:
        """One exchange, if it is not lost."""
        self._lose("the connection was refused")
        answer = await self._inner.request(
            method, path, headers=headers, body=body, timeout=timeout
        )
        self._lose("the connection broke before the answer came")
        return answer

    def stream(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: Body = b"",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> AbstractAsyncContextManager[StreamedResponse]:
        """One exchange in pieces, if the request is not lost."""
        self._lose("the connection was refused")
        return self._inner.stream(method, path, headers=headers, body=body, timeout=timeout)

    def websocket(
        self, path: str, *, headers: Mapping[str, str], timeout: float = DEFAULT_TIMEOUT
    ) -> AbstractAsyncContextManager[WebSocket]:
        """A websocket connection, if the request is not lost."""
        self._lose("the connection was refused")
        return self._inner.websocket(path, headers=headers, timeout=timeout)

    async def switch(
        self, path: str, protocol: str, *, headers: Mapping[str, str], form: Mapping[str, str]
    ) -> Pipe:
        """A connection with another protocol, if the request is not lost."""
        self._lose("the connection was refused")
        return await self._inner.switch(path, protocol, headers=headers, form=form)

    async def close(self) -> None:
        """Close the transport below."""
        await self._inner.close()

    def _lose(self, how: str) -> None:
        if self._random.random() < self._loss:
            raise Unavailable(how)


class _Exchange:
    """One HTTP request inside the application."""

    def __init__(self, body: AsyncIterator[bytes], timeout: float) -> None:
        self.complete = False
        self._body: AsyncIterator[bytes] | None = body
        self._timeout = timeout
        self._answer: asyncio.Queue[Message | None] = asyncio.Queue()

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._answer.put)
        finally:
            self._answer.put_nowait(None)

    async def next_message(self) -> Message:
        try:
            async with asyncio.timeout(self._timeout):
                message = await self._answer.get()
        except TimeoutError as error:
            raise Unavailable(f"no answer within {self._timeout:g} s") from error
        if message is None:
            self.complete = True
            raise Unavailable("the application ended before its answer was complete")
        return message

    async def chunks(self) -> AsyncGenerator[bytes]:
        while not self.complete:
            message = await self.next_message()
            self.complete = not message.get("more_body", False)
            if message.get("body"):
                yield message["body"]

    async def _receive(self) -> Message:
        if self._body is None:
            # The other side stays until the exchange ends, which cancels this.
            await asyncio.Event().wait()
            return {"type": "http.disconnect"}
        async for piece in self._body:
            return {"type": "http.request", "body": piece, "more_body": True}
        self._body = None
        return {"type": "http.request", "body": b"", "more_body": False}


class _AsgiWebSocket:
    """One websocket connection inside the application."""

    def __init__(self) -> None:
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message] = asyncio.Queue()
        self._closed = False
        self._to_app.put_nowait({"type": "websocket.connect"})

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        try:
            await app(scope, self._to_app.get, self._from_app.put)
        finally:
            self._from_app.put_nowait({"type": "websocket.close"})

    async def opened(self, timeout: float) -> None:
        message = await self._next(timeout)
        if message["type"] != "websocket.accept":
            self._closed = True
            raise from_status(message.get("status", 403), "the websocket was refused")

    async def send(self, message: str) -> None:
        if self._closed:
            raise Unavailable("the connection is gone")
        self._to_app.put_nowait({"type": "websocket.receive", "text": message})

    async def receive(self, timeout: float) -> str | None:
        message = await self._next(timeout)
        if message["type"] != "websocket.send":
            self._closed = True
            return None
        return (
            str(message["text"])
            if message.get("text") is not None
            else bytes(message["bytes"]).decode()
        )

    def disconnect(self) -> None:
        self._closed = True
        self._to_app.put_nowait({"type": "websocket.disconnect", "code": 1000})

    async def _next(self, timeout: float) -> Message:
        try:
            async with asyncio.timeout(timeout):
                return await self._from_app.get()
        except TimeoutError as error:
            raise Unavailable(f"nothing heard for {timeout:g} s") from error


async def _incoming(body: Body) -> AsyncGenerator[bytes]:
    if isinstance(body, bytes | bytearray):
        for start in range(0, len(body), _PIECE):
            yield bytes(body[start : start + _PIECE])
    else:
        async for piece in body:
            yield bytes(piece)


def _decoded(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


class ListeningServer(uvicorn.Server):
    """A server with an event for the moment when it listens, and its address."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.stopping = asyncio.Event()

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        """Serve until `stopping` is set, without polling."""
        await self.on_tick(0)
        await self.stopping.wait()

    @property
    def port(self) -> int:
        """The loopback port that was free."""
        port: int = self.servers[0].sockets[0].getsockname()[1]
        return port


@asynccontextmanager
async def serving(app: ASGIApp, **options: Any) -> AsyncGenerator[ListeningServer]:
    """Serve until the context ends; `options` are uvicorn's: `uds`, `ssl_certfile`, `ssl_keyfile`.

    Requests that are under way at the end are dropped.
    """
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        lifespan="off",
        log_level="critical",
        ws="websockets-sansio",
        timeout_graceful_shutdown=0,
        **options,
    )
    server = ListeningServer(config)
    task = asyncio.create_task(server.serve())
    await asyncio.wait_for(server.listening.wait(), 10)
    try:
        yield server
    finally:
        server.stopping.set()
        await task
