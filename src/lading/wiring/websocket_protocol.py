"""The protocol of websockets: uvicorn's with bounds on what a client keeps in memory."""

from __future__ import annotations

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from lading.net.acceptor import PEER

# Fragments of a message on a websocket, and the code for one that is too big (RFC 6455, 7.4.1).
_MOST_FRAGMENTS = 1000
_TOO_BIG = 1009


class EventsProtocol(WebSocketsSansIOProtocol):
    """uvicorn's websocket protocol; its connection counts in the connection table as well.

    A client takes no memory by what has no length: fragments of a message are counted, and pings
    get no answer while the client reads none.
    """

    def handle_cont(self, event: Frame) -> None:
        """Keep a fragment; a message of too many ends the connection."""
        if len(self.frames) >= _MOST_FRAGMENTS:
            self.frames = []
            if not self.close_sent:
                self.conn.send_close(_TOO_BIG, "too many fragments")
                self.handle_parser_exception()
            return
        super().handle_cont(event)

    def handle_ping(self) -> None:
        """Answer a ping, unless earlier answers still wait for their reader (RFC 6455, 5.5.3)."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the table."""
        peer = self.app_state.get(PEER)
        if peer is not None:
            peer.leave()
        super().connection_lost(exc)
