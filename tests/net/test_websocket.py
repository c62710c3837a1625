from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from lading.core.errors import Forbidden, LadingError, Malformed, Unavailable
from lading.core.protocols.websocket_frames import ACCEPTED_BY, MOST
from lading.net.http_upgrade import Way
from lading.net.websocket import WebSocketConnection, open_websocket

_ACCEPTED = "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: {}\r\n\r\n"


@asynccontextmanager
async def _speaking(
    folder: Path, frames: bytes, answer: Callable[[str], str] = _ACCEPTED.format
) -> AsyncIterator[tuple[Way, list[bytes]]]:
    """A server that sends these frames and waits; what it was sent afterwards."""
    heard: list[bytes] = []
    tasks: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        key = next(line[19:] for line in head if line.startswith("Sec-WebSocket-Key: "))
        digest = hashlib.sha1(key.encode() + ACCEPTED_BY).digest()
        writer.write(answer(base64.b64encode(digest).decode()).encode() + frames)
        with suppress(OSError):
            heard.append(await reader.read(100))
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_unix_server(serve, folder / "s")
    try:
        yield Way(unix_socket=str(folder / "s")), heard
    finally:
        server.close()
        await asyncio.gather(*filter(None, tasks))


async def _open(way: Way) -> WebSocketConnection:
    return await open_websocket(way, "h", "/", {}, timeout=5)


async def test_pieces_pings_and_the_end(tmp_path: Path) -> None:
    frames = b"\x01\x01a" + b"\x89\x01p" + b"\x8a\x00" + b"\x80\x01b" + b"\x88\x02\x03\xe8"
    async with _speaking(tmp_path, frames) as (way, heard):
        connection = await _open(way)
        assert await connection.receive() == "ab"
        assert await connection.receive() is None
        with pytest.raises(ConnectionResetError, match="closed it"):
            await connection.send("more")
        await connection.close()
    assert heard[0][:2] == b"\x8a\x81"


async def test_the_end_is_said_to_a_server_that_does_not_answer(tmp_path: Path) -> None:
    async with _speaking(tmp_path, b"") as (way, heard):
        connection = await _open(way)
        await connection.close()
    assert heard[0][:2] == b"\x88\x82"


async def test_a_connection_that_ends_without_a_word(tmp_path: Path) -> None:
    async with _speaking(tmp_path, b"") as (way, _):
        connection = await _open(way)
        await connection.send("hello")
        with pytest.raises(ConnectionResetError, match="without a word"):
            await connection.receive()
        await connection.close()


async def test_a_message_of_any_length_is_not_kept(tmp_path: Path) -> None:
    piece = b"\x01\x7f" + MOST.to_bytes(8, "big") + bytes(MOST)
    async with _speaking(tmp_path, piece + b"\x80\x01b") as (way, _):
        connection = await _open(way)
        with pytest.raises(Malformed, match="too long"):
            await connection.receive()
        await connection.close()


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("HTTP/1.1 403 No\r\n\r\n", Forbidden),
        (_ACCEPTED.format("x"), Unavailable),
        ("what\r\n\r\n", Malformed),
    ],
)
async def test_a_refused_handshake(tmp_path: Path, said: str, kind: type[LadingError]) -> None:
    async with _speaking(tmp_path, b"", lambda _: said) as (way, _):
        with pytest.raises(kind):
            await _open(way)
