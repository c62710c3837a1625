"""Frames of websocket connections, from the client's side: written with a mask, read without one.

Source: RFC 6455, section 5. Without extensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lading.core.errors import Malformed

CONTINUATION: Final = 0x0
TEXT: Final = 0x1
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA
MOST: Final = 4 << 20
"""Bytes of a message, at most."""
ACCEPTED_BY: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""The text that the server appends to the key of the handshake before hashing it (section 1.3)."""
_KNOWN: Final = frozenset({CONTINUATION, TEXT, CLOSE, PING, PONG})
# Opcodes from here on are those of control frames, which are short and in one piece.
_CONTROL: Final = 0x8
# Lengths of RFC 6455, section 5.2: up to 125 in place; 126 and 127 say that 2 or 8 bytes follow.
_SHORT: Final = 125
_TWO_BYTES: Final = 126
_EIGHT_BYTES: Final = 127


@dataclass(frozen=True, slots=True)
class WebSocketFrame:
    """One frame; a message is one frame, or several of which the last is final."""

    opcode: int
    payload: bytes
    is_final: bool = True


def encode_frame(opcode: int, payload: bytes, mask: bytes) -> bytes:
    """A final frame of a client; `mask` is four random bytes."""
    size = len(payload)
    if size <= _SHORT:
        length = bytes((0x80 | size,))
    elif size < 1 << 16:
        length = bytes((0x80 | _TWO_BYTES,)) + size.to_bytes(2, "big")
    else:
        length = bytes((0x80 | _EIGHT_BYTES,)) + size.to_bytes(8, "big")
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    masked = (int.from_bytes(payload, "big") ^ key).to_bytes(size, "big")
    return bytes((0x80 | opcode,)) + length + mask + masked


def parse_frame(data: bytes | bytearray) -> tuple[WebSocketFrame, int] | None:
    """The first frame of a server in `data`, and its size; None if it is not complete yet.

    Raises Malformed, also for a frame of more than MOST bytes, before it has arrived.
    """
    if len(data) < 2:
        return None
    opcode, size, start = data[0] & 0x0F, data[1] & 0x7F, 2
    is_final = bool(data[0] & 0x80)
    _check(data[0], data[1])
    if size > _SHORT:
        start = 4 if size == _TWO_BYTES else 10
        if len(data) < start:
            return None
        size = int.from_bytes(data[2:start], "big")
    if size > MOST:
        raise Malformed(f"websocket: a frame of {size} bytes is too long")
    end = start + size
    if len(data) < end:
        return None
    return WebSocketFrame(opcode, bytes(data[start:end]), is_final), end


def _check(first: int, second: int) -> None:
    """Check the first two bytes of a frame. Raises Malformed."""
    opcode = first & 0x0F
    if first & 0x70 or opcode not in _KNOWN:
        raise Malformed(f"websocket: a frame of an unknown kind ({first:#04x})")
    if second & 0x80:
        raise Malformed("websocket: a frame of the server has a mask")
    if opcode >= _CONTROL and (second > _SHORT or not first & 0x80):
        raise Malformed("websocket: a control frame is too long or in pieces")
