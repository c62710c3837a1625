from __future__ import annotations

import pytest

from lading.core.errors import Malformed
from lading.core.protocols import websocket_frames
from lading.core.protocols.websocket_frames import WebSocketFrame, encode_frame, parse_frame


def test_a_frame_of_a_client_is_that_of_the_rfc() -> None:
    """The example of RFC 6455, section 5.7."""
    mask = bytes.fromhex("37fa213d")
    assert encode_frame(websocket_frames.TEXT, b"Hello", mask) == bytes.fromhex(
        "818537fa213d7f9f4d5158"
    )


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
def test_lengths(size: int) -> None:
    sent = encode_frame(websocket_frames.TEXT, b"x" * size, bytes(4))
    # With a mask of zeros it is the server's frame, but for the mask's bit and bytes.
    head = len(sent) - size - 4
    frame = bytes((sent[0], sent[1] & 0x7F)) + sent[2:head] + sent[head + 4 :]
    assert parse_frame(frame + b"more") == (
        WebSocketFrame(websocket_frames.TEXT, b"x" * size),
        len(frame),
    )
    for cut in (0, 1, 3, len(frame) - 1):
        if cut < len(frame):
            assert parse_frame(frame[:cut]) is None


def test_a_message_may_come_in_pieces() -> None:
    assert parse_frame(b"\x01\x01a") == (
        WebSocketFrame(websocket_frames.TEXT, b"a", is_final=False),
        3,
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xc1\x00", "unknown kind"),
        (b"\x83\x00", "unknown kind"),
        (b"\x81\x80", "has a mask"),
        (b"\x89\x7e", "too long or in pieces"),
        (b"\x09\x00", "too long or in pieces"),
        (b"\x81\x7f" + (websocket_frames.MOST + 1).to_bytes(8, "big"), "is too long"),
    ],
)
def test_a_frame_that_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        parse_frame(data)
