"""A websocket connection from the client's side: the handshake, and messages of text.

Source: RFC 6455. Written by hand: the libraries take 20 to 100 ms to import, which each command
would pay.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress

from lading.core.errors import Malformed, Unavailable, from_status
from lading.core.protocols import http_head, websocket_frames
from lading.core.protocols.http_head import HttpHead
from lading.core.protocols.websocket_frames import WebSocketFrame
from lading.net.http_connections import ConnectionReader, abort, encode_head
from lading.net.http_upgrade import LIMIT, Way
from lading.net.pipes import Pipe, receive_head

# Seconds for the server to answer the end of the conversation.
_CLOSING = 1.0
# Bytes read at a time.
_PIECE = 1 << 16
# The code of a normal end (section 7.4.1).
_NORMAL = (1000).to_bytes(2, "big")


class WebSocketConnection:
    """An open connection. Messages that are not text are skipped."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._received = bytearray()
        self._parts: list[bytes] = []
        self._is_closed = False

    async def send(self, message: str) -> None:
        """Send one message. Raises OSError."""
        await self._write(websocket_frames.TEXT, message.encode())

    async def receive(self) -> str | None:
        """The next message; None after the server ended the conversation. Raises OSError,
        Malformed.
        """
        while not self._is_closed:
            frame = await self._frame()
            if frame.opcode == websocket_frames.CLOSE:
                with suppress(OSError):
                    await self._write(websocket_frames.CLOSE, frame.payload[:2])
                self._is_closed = True
            elif frame.opcode == websocket_frames.PING:
                await self._write(websocket_frames.PONG, frame.payload)
            elif frame.opcode != websocket_frames.PONG:
                self._parts.append(frame.payload)
                if sum(map(len, self._parts)) > websocket_frames.MOST:
                    raise Malformed("websocket: a message is too long")
                if frame.is_final:
                    whole, self._parts = b"".join(self._parts), []
                    return whole.decode(errors="replace")
        return None

    async def close(self) -> None:
        """End the conversation, and close the connection."""
        try:
            # The connection is given up anyway; a failure of the closing handshake does not matter.
            with suppress(OSError, Malformed):
                async with asyncio.timeout(_CLOSING):
                    if not self._is_closed:
                        await self._write(websocket_frames.CLOSE, _NORMAL)
                    while await self.receive() is not None:
                        pass
        finally:
            abort(self._pipe)

    async def _write(self, opcode: int, payload: bytes) -> None:
        if self._is_closed:
            raise ConnectionResetError("the server has closed it")
        self._pipe.writer.write(websocket_frames.encode_frame(opcode, payload, os.urandom(4)))
        await self._pipe.writer.drain()

    async def _frame(self) -> WebSocketFrame:
        while (found := websocket_frames.parse_frame(self._received)) is None:
            data = await self._pipe.reader.read(_PIECE)
            if not data:
                raise ConnectionResetError("it ended without a word")
            self._received += data
        frame, size = found
        del self._received[:size]
        return frame


async def open_websocket(
    way: Way, name: str, path: str, headers: Mapping[str, str], *, timeout: float
) -> WebSocketConnection:
    """Open a connection; `name` is the header Host. Raises OSError, Malformed, and the error of the
    status with which the server refused.
    """
    key = base64.b64encode(os.urandom(16))
    fields = {
        "Host": name,
        **headers,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key.decode(),
    }
    head = encode_head("GET", path, fields)
    async with asyncio.timeout(timeout):
        pipe = await way.connect(ConnectionReader(limit=LIMIT), timeout=timeout)
        try:
            pipe.writer.write(head)
            _check(http_head.parse_answer(await receive_head(pipe.reader)), key)
        except asyncio.IncompleteReadError as error:
            abort(pipe)
            raise ConnectionResetError("the connection ended before the answer") from error
        except BaseException:
            abort(pipe)
            raise
    return WebSocketConnection(pipe)


def _check(answer: HttpHead, key: bytes) -> None:
    if answer.status != 101:
        raise from_status(answer.status, f"the websocket was refused ({answer.status})")
    digest = hashlib.sha1(key + websocket_frames.ACCEPTED_BY, usedforsecurity=False).digest()
    if answer.get("sec-websocket-accept") != base64.b64encode(digest).decode():
        raise Unavailable("the server does not speak websocket")
