"""Frames of a hostile client of the websocket: messages that unpack to gigabytes, fragments without
end, pings that nobody reads the answers of, and frames that are none.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send

from lading.wiring.websocket_protocol import EventsProtocol

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MOST = 1 << 20
LIMIT = 4 << 20
"""Bytes that a connection may take of the server, whatever its client does."""
DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate\r\n"


def frame(
    opcode: int, payload: bytes = b"", *, final: bool = True, bits: int = 0, mask: bool = True,
    size: int | None = None, wide: bool = False,
) -> bytes:  # fmt: skip
    """A frame of a client, of which any part may be wrong."""
    length = len(payload) if size is None else size
    key = os.urandom(4) if mask else b""
    body = bytes(a ^ key[n % 4] for n, a in enumerate(payload)) if mask else payload
    second = 0x80 if mask else 0
    if length < 126 and not wide:
        head = struct.pack("!B", second | length)
    elif length < 1 << 16 and not wide:
        head = struct.pack("!BH", second | 126, length)
    else:
        head = struct.pack("!BQ", second | 127, length)
    return bytes((0x80 * final | bits | opcode,)) + head + key + body


class Protocol(EventsProtocol):
    """The protocol, which notes how much waits in it."""

    most = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waiting = self.transport.get_write_buffer_size()
        held = sum(map(len, self.frames)) + 64 * len(self.frames)
        Protocol.most = max(Protocol.most, waiting + held)


class Site:
    """A websocket that notes the sizes of its messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sizes: list[int] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._serve()), daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(60)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)

    async def _serve(self) -> None:
        config = uvicorn.Config(
            self._app, ws=Protocol, ws_max_size=MOST, loop="none", interface="asgi3",
            lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        with closing(socket.socket(socket.AF_UNIX)) as listening:
            listening.bind(str(self.path))
            listening.listen()
            asyncio.get_running_loop().call_later(0.05, self._ready.set)
            await self._server.serve([listening])

    async def _app(self, _: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            self.sizes.append(len(message.get("text") or message.get("bytes") or b""))

    def attack(self, *pieces: bytes, more: str = "", times: int = 1) -> bytes:
        """Send pieces, the last one again and again, without reading; the server's last words."""
        self.sizes.clear()
        Protocol.most = 0
        with closing(socket.socket(socket.AF_UNIX)) as connection:
            connection.settimeout(2)
            connection.connect(str(self.path))
            key = base64.b64encode(os.urandom(16)).decode()
            connection.sendall(
                "GET /websocket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\n"
                f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{more}\r\n".encode()
            )
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += connection.recv(1 << 16)
            with suppress(OSError):
                for piece in (*pieces[:-1], *pieces[-1:] * times):
                    connection.sendall(piece)
            said = b""
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                while data := connection.recv(1 << 16):
                    said += data
            return said


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("frames") / "s")
    made.start()
    try:
        yield made
    finally:
        made.stop()


def closed_with(said: bytes) -> int:
    """The code of the last frame, if it closes; 0 otherwise."""
    at = said.rfind(b"\x88")
    return int.from_bytes(said[at + 2 : at + 4], "big") if at >= 0 else 0


def packed(data: bytes) -> bytes:
    """Data as permessage-deflate packs it."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (pack.compress(data) + pack.flush(zlib.Z_SYNC_FLUSH))[:-4]


@pytest.mark.attack("sends a message of kilobytes that unpacks to a hundred megabytes")
@pytest.mark.parametrize("size", [MOST + 1, 10 << 20, 100 << 20])
def test_bombs(site: Site, size: int) -> None:
    said = site.attack(frame(TEXT, packed(bytes(size)), bits=0x40), more=DEFLATE)
    assert (site.sizes, closed_with(said)) == ([], 1009)


@pytest.mark.attack("sends a bomb in fragments, each of which is small")
def test_bombs_in_pieces(site: Site) -> None:
    data = packed(bytes(20 << 20))
    half = len(data) // 2
    pieces = (
        frame(TEXT, data[:half], final=False, bits=0x40),
        frame(CONTINUED, data[half:]),
    )
    said = site.attack(*pieces, more=DEFLATE)
    assert (site.sizes, closed_with(said)) == ([], 1009)


@pytest.mark.attack("sends fragments without end, empty ones or larger ones")
@pytest.mark.parametrize("size", [0, 1, 100])
def test_fragments_without_end(site: Site, size: int) -> None:
    part = frame(CONTINUED, b"a" * size, final=False)
    said = site.attack(frame(TEXT, b"a", final=False), part * 20_000, times=10)
    assert site.sizes == []
    assert Protocol.most < LIMIT
    assert closed_with(said) in (0, 1009, 1002)


@pytest.mark.attack("pings without end, and reads no answer")
@pytest.mark.parametrize("size", [0, 1, 125])
def test_pings_without_a_reader(site: Site, size: int) -> None:
    site.attack(frame(PING, b"a" * size) * 20_000, times=10)
    assert Protocol.most < LIMIT


WRONG = {
    "no mask": frame(TEXT, b"a", mask=False),
    "no mask on a ping": frame(PING, b"a", mask=False),
    "large ping": frame(PING, b"a" * 126),
    "large close": frame(CLOSE, b"a" * 200),
    "large pong": frame(PONG, b"a" * 70_000),
    "ping in pieces": frame(PING, b"a", final=False),
    "close of one byte": frame(CLOSE, b"a"),
    "close with a code that is none": frame(CLOSE, b"\x00\x01"),
    "close with no text": frame(CLOSE, b"\x03\xe8\xff"),
    "continued without a beginning": frame(CONTINUED, b"a"),
    "begun twice": frame(TEXT, b"a", final=False) + frame(TEXT, b"a"),
    "long for its length": frame(TEXT, b"", size=1 << 40, wide=True),
    "length with its sign": frame(TEXT, b"", size=1 << 63, wide=True),
    "too long": frame(TEXT, b"", size=MOST + 1, wide=True),
    "no text": frame(TEXT, b"\xff\xfe"),
    **{f"bits {bits:#x}": frame(TEXT, b"a", bits=bits) for bits in range(0x10, 0x80, 0x10)},
    **{f"opcode {one}": frame(one, b"a") for one in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
}


@pytest.mark.attack("sends a frame that is none")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_frames(site: Site, name: str) -> None:
    said = site.attack(WRONG[name] + frame(TEXT, b"afterwards"))
    assert 10 not in site.sizes
    assert closed_with(said) in (0, 1002, 1007, 1009)
    assert Protocol.most < LIMIT
    # The server goes on.
    site.attack(frame(TEXT, b"plain"), frame(CLOSE, b"\x03\xe8"))
    assert site.sizes == [5]


@pytest.mark.attack("sends each kind of frame with each combination of its bits")
def test_every_kind_of_frame(site: Site) -> None:
    for opcode in range(16):
        for bits in (0, 0x10, 0x20, 0x40):
            for final in (True, False):
                for mask in (True, False):
                    one = frame(opcode, b"ab", bits=bits, final=final, mask=mask)
                    site.attack(one, more=DEFLATE)
                    assert Protocol.most < LIMIT
    site.attack(frame(TEXT, b"plain"), frame(CLOSE, b"\x03\xe8"))
    assert site.sizes == [5]
