"""The other side of an HTTP connection, as an application sees it in the ASGI scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lading.core.connections import Connection, ConnectionTable

PEER: Final = "lading.peer"
"""The key of the `Peer` in the state of a request's or websocket's scope."""


class Peer:
    """The place of one connection in the table of its server; `leave` is called when it has ended."""

    __slots__ = ("connection", "leave", "table")

    def __init__(
        self,
        table: ConnectionTable,
        connection: Connection,
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        self.table = table
        self.connection = connection
        self.leave = leave


def note_known(scope: Mapping[str, Any]) -> None:
    """Say that the request of this scope was authenticated; a server without limits is not told."""
    peer = (scope.get("state") or {}).get(PEER)
    if peer is not None:
        peer.table.know(peer.connection)
