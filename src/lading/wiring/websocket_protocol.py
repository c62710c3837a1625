"""The protocol of websockets: uvicorn's with bounds on what a client keeps in memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from http import HTTPStatus

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request
from websockets.protocol import State

from lading.api.events.websocket import SEND_AT_ONCE
from lading.net.acceptor import PEER

# Fragments of a message on a websocket, and the code for one that is too big (RFC 6455, 7.4.1).
_MOST_FRAGMENTS = 1000
_TOO_BIG = 1009
# The first byte of a text of one frame, and the marks of sizes of two and of eight bytes (RFC 6455,
# 5.2).
_TEXT, _TWO_BYTES, _EIGHT_BYTES = 0x81, 126, 127


def _frame(message: str) -> bytes:
    """A text as a message of one frame without a mask (RFC 6455, 5.2)."""
    payload = message.encode()
    size = len(payload)
    if size < _TWO_BYTES:
        return bytes((_TEXT, size)) + payload
    if size < 1 << 16:
        return struct.pack("!BBH", _TEXT, _TWO_BYTES, size) + payload
    return struct.pack("!BBQ", _TEXT, _EIGHT_BYTES, size) + payload


class EventsProtocol(WebSocketsSansIOProtocol):
    """uvicorn's websocket protocol; its connection counts in the connection table as well.

    A client takes no memory by what has no length: fragments of a message are counted, and pings
    get no answer while the client reads none.
    """

    def handle_connect(self, event: Request) -> None:
        """Begin a connection, and offer `send_at_once` to the application."""
        super().handle_connect(event)
        if self.response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            extensions = self.scope["extensions"]
            assert extensions is not None
            extensions[SEND_AT_ONCE] = {"send": self.send_at_once}

    def send_at_once(self, texts: Sequence[str]) -> bool:
        """Send texts with one write; False, and nothing is sent, while the client is behind or once
        the connection ends.
        """
        if not self.writable.is_set() or self.close_sent or self.conn.state is not State.OPEN:
            return False
        self.transport.write(b"".join(map(_frame, texts)))
        return True

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
