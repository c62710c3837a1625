"""Real servers in the loop of a test: an ASGI application on a loopback port or a Unix socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from socket import socket
from typing import Any

import uvicorn
from starlette.types import ASGIApp


class ListeningServer(uvicorn.Server):
    """A server that says when it listens, and where."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.stopping = asyncio.Event()

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        """Serve until told to stop, without looking every now and then."""
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
