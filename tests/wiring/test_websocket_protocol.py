"""The protocol of websockets bounds what has no length; hostile frames are in tests/security."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from lading.api.events.websocket import SEND_AT_ONCE
from lading.net.acceptor import PEER
from lading.wiring.websocket_protocol import EventsProtocol

HANDSHAKE = (
    b"GET /websocket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
# Masked by zeros, so that the payload stays as it is.
PING = b"\x89\x82\0\0\0\0hi"
PONG = b"\x8a\x02hi"
FIRST, EMPTY_PART = b"\x01\x81\0\0\0\0a", b"\x00\x80\0\0\0\0"


class _Peer:
    """An entry of the connection table that notes that it was left."""

    has_left = False

    def leave(self) -> None:
        self.has_left = True


class _Transport(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def _accept(_: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def _opened(peer: _Peer) -> tuple[EventsProtocol, _Transport]:
    config = Config(_accept, lifespan="off", log_config=None)
    config.load()
    protocol = EventsProtocol(config, ServerState(), {PEER: peer})
    transport = _Transport()
    protocol.connection_made(transport)
    protocol.data_received(HANDSHAKE)
    while b"101 Switching" not in transport.written:
        await asyncio.sleep(0)
    transport.written = b""
    return protocol, transport


async def test_pings_are_answered_while_somebody_reads() -> None:
    peer = _Peer()
    protocol, transport = await _opened(peer)
    protocol.data_received(PING)
    assert transport.written == PONG
    protocol.pause_writing()
    protocol.data_received(PING)
    assert transport.written == PONG
    protocol.resume_writing()
    protocol.connection_lost(None)
    assert peer.has_left


async def test_a_message_of_too_many_fragments_ends_the_connection() -> None:
    protocol, transport = await _opened(_Peer())
    protocol.data_received(FIRST)
    for _ in range(998):
        protocol.data_received(EMPTY_PART)
    assert not transport.written
    for _ in range(3):
        protocol.data_received(EMPTY_PART)
    assert b"too many fragments" in transport.written
    protocol.connection_lost(None)


async def test_texts_are_sent_with_one_write_while_the_client_keeps_up() -> None:
    protocol, transport = await _opened(_Peer())
    texts = ["hi", "x" * 200, "y" * 70_000]
    assert protocol.send_at_once(texts)
    client = ClientProtocol(parse_uri("ws://x/websocket"), max_size=1 << 20, state=State.OPEN)
    client.receive_data(transport.written)
    frames = [event for event in client.events_received() if isinstance(event, Frame)]
    assert [bytes(frame.data).decode() for frame in frames] == texts
    assert {(frame.opcode, frame.fin) for frame in frames} == {(Opcode.TEXT, True)}
    protocol.pause_writing()
    assert not protocol.send_at_once(["late"])
    protocol.resume_writing()
    await protocol.send({"type": "websocket.close", "code": 1000})
    transport.written = b""
    assert not protocol.send_at_once(["too late"])
    assert transport.written == b""
    protocol.connection_lost(None)


async def test_the_application_is_offered_it() -> None:
    protocol, _ = await _opened(_Peer())
    assert (protocol.scope["extensions"] or {})[SEND_AT_ONCE] == {"send": protocol.send_at_once}
    protocol.connection_lost(None)
