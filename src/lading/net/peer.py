"""The client's connection, as an application finds it in the ASGI scope."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from lading.core.protocols.connection_limits import Connection, ConnectionTable

PEER: Final = "lading.peer"
"""The key of the `Peer` in the state of a request's or websocket's scope."""


class Peer:
    """One connection and the table of its server; `leave` is called when it has ended, `abort` ends
    it at once.
    """

    __slots__ = ("abort", "connection", "leave", "table")

    def __init__(
        self,
        table: ConnectionTable,
        connection: Connection,
        leave: Callable[[], None] = lambda: None,
        abort: Callable[[], None] = lambda: None,
    ) -> None:
        self.table = table
        self.connection = connection
        self.leave = leave
        self.abort = abort


def note_known(scope: Mapping[str, Any]) -> None:
    """Note that the request of this scope was authenticated, where the server limits strangers."""
    peer = (scope.get("state") or {}).get(PEER)
    if peer is not None:
        peer.table.know(peer.connection)


async def end(scope: Mapping[str, Any]) -> None:
    """End the connection of this scope at once; buffered bytes are dropped."""
    peer = (scope.get("state") or {}).get(PEER)
    if peer is not None:
        peer.abort()
        # The event loop tells the server in its next pass.
        await asyncio.sleep(0)
