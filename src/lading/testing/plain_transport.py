"""A transport of requests and responses alone: no streams, no websocket, no other protocol."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from lading.client.transport import Body, StreamedResponse, WebSocket
from lading.core.errors import (
    Unavailable,
)
from lading.net.pipes import Pipe


class ExchangesOnly:
    """The rest of `Transport` beside `request`: nothing is streamed, and events come in another
    way.
    """

    def stream(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: Body = b"",
        timeout: float = 0.0,
    ) -> AbstractAsyncContextManager[StreamedResponse]:
        """Not offered. Raises Unavailable."""
        raise Unavailable(f"no streams here: {method} {path} {headers} {body!r} {timeout}")

    def websocket(
        self, path: str, *, headers: Mapping[str, str], timeout: float = 0.0
    ) -> AbstractAsyncContextManager[WebSocket]:
        """Not offered: take `events`. Raises Unavailable."""
        raise Unavailable(f"no websocket here: {path} {headers} {timeout}")

    async def switch(
        self, path: str, protocol: str, *, headers: Mapping[str, str], form: Mapping[str, str]
    ) -> Pipe:
        """Not offered. Raises Unavailable."""
        raise Unavailable(f"no other protocol here: {path} {protocol} {headers} {form}")

    async def close(self) -> None:
        """Do nothing: there is no connection."""
