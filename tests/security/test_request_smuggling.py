"""Two parsers in a row read one message in two ways: what one takes for a body is a request for the
other. The server's own parser, the one for forwarded heads, and that of the HPC daemon.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import socket
import termios
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send

from lading.core.errors import LadingError
from lading.core.protocols import daemon_http, http_head
from lading.wiring.http_protocol import ReceivingProtocol

HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"0\r\n\r\n"
SPELLINGS = (
    b"Transfer-Encoding: chunked",
    b"transfer-encoding: CHUNKED",
    b"Transfer-Encoding : chunked",
    b" Transfer-Encoding: chunked",
    b"\tTransfer-Encoding: chunked",
    b"Transfer-Encoding:chunked",
    b"Transfer-Encoding:\tchunked",
    b"Transfer-Encoding: \x0bchunked",
    b"Transfer-Encoding: chunked\x0b",
    b"Transfer-Encoding: chunked\0",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: chunkedx",
    b"Transfer-Encoding: identity, chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: 'chunked'",
    b'Transfer-Encoding: "chunked"',
    b"Transfer-Encoding: chunked;a=b",
    b"Transfer-Encoding:\r\n chunked",
    b"Transfer-Encoding: \r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    b"Transfer_Encoding: chunked",
    b"Transfer-Encoding\0: chunked",
    b"X: y\nTransfer-Encoding: chunked",
    b"X: y\rTransfer-Encoding: chunked",
    b"X:\r\n Transfer-Encoding: chunked",
    b"Transfer-Encoding: ch\xc3\xbcnked",
    b"Trailer: x\r\nTransfer-Encoding: chunked",
    b"Connection: transfer-encoding\r\nTransfer-Encoding: chunked",
    b"Connection: content-length\r\nTransfer-Encoding: chunked",
)
"""How a coding is named beside a Content-Length that covers the hidden request."""
LENGTHS = (
    b"+5",
    b"-5",
    b"5 5",
    b"5,5",
    b"5, 6",
    b"0x5",
    b"5e0",
    b"5.0",
    b"5;",
    b"\xef\xbc\x95",
    b"5\0",
    b"5\x0b",
    b"",
    b" ",
    b"99999999999999999999",
    b"-1",
    b"5\r\nContent-Length: 6",
    b"6\r\nContent-Length: 5",
    b"5\r\ncontent-length: 9",
    b"5\r\n 5",
    b"'5'",
    b"5_0",
    b"0b101",
    b"\t",
)
"""Lengths that are none, or several."""
CHUNKS = (
    b"+5\r\nabcde\r\n", b"-5\r\nabcde\r\n", b"0x5\r\nabcde\r\n", b" 5\r\nabcde\r\n",
    b"5\nabcde\r\n", b"5\r\nabcde\n", b"5\r\nabcdeX\r\n", b"5\r\nabcde", b"g\r\nabcde\r\n",
    b"fffffffffffffffff5\r\nabcde\r\n", b"10000000000000005\r\nabcde\r\n", b"5\rabcde\r\n",
    b"5 5\r\nabcde\r\n", b"5,5\r\nabcde\r\n", b"5\0\r\nabcde\r\n", b"\r\n5\r\nabcde\r\n",
    b"5_0\r\nabcde\r\n", b"\xef\xbc\x95\r\nabcde\r\n", b";x\r\nabcde\r\n", b"5\x0b\r\nabcde\r\n",
)  # fmt: skip
"""Chunks that are none; behind them stands a hidden request."""
STARTS = (
    b"GET  / HTTP/1.1",
    b"GET / HTTP/1.1 ",
    b" GET / HTTP/1.1",
    b"GET\t/ HTTP/1.1",
    b"GET /\x0b HTTP/1.1",
    b"GET / HTTP/1.1\rX: y",
    b"GET /\0 HTTP/1.1",
    b"GET / HTTP/2.0",
    b"GET / HTTP/1.10",
    b"GET / http/1.1",
    b"GET / HTTP/ 1.1",
    b"G\xc3\x84T / HTTP/1.1",
    b"GET / a HTTP/1.1",
    b"GET / HTTP/1.1\x0b",
    b"\0GET / HTTP/1.1",
    b"GET / XTTP/1.1",
    b"G@T / HTTP/1.1",
    b"GET HTTP/1.1",
    b"/ HTTP/1.1",
    b"GET / HTTP/-1.1",
)
FIELDS = (
    b"X : y",
    b" X: y",
    b"X\0: y",
    b"X: y\0",
    b"X",
    b": y",
    b"X: y\nZ: z",
    b"X: y\rZ: z",
    b"X\x0b: y",
    b"X\xc3\xa4: y",
    b"X: y\x0b",
    b"X:\n y",
    b"(X): y",
    b"X@: y",
    b"X: \x7f",
    b"\tX: y",
)


class Site:
    """A server that notes the paths of its requests."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paths: list[str] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._serve()))

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(60)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)

    async def _serve(self) -> None:
        config = uvicorn.Config(
            self._app, http=ReceivingProtocol, loop="none", interface="asgi3", lifespan="off",
            log_config=None, access_log=False,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        with closing(socket.socket(socket.AF_UNIX)) as listening:
            listening.bind(str(self.path))
            listening.listen()
            asyncio.get_running_loop().call_later(0.05, self._ready.set)
            await self._server.serve([listening])

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.paths.append(f"{scope['method']} {scope['path']}")
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    def send(self, *pieces: bytes) -> list[str]:
        """The requests that the server sees in these bytes."""
        self.paths.clear()
        with closing(socket.socket(socket.AF_UNIX)) as connection:
            connection.settimeout(10)
            connection.connect(str(self.path))
            try:
                for piece in pieces:
                    connection.sendall(piece)
                    # The server reads each piece on its own.
                    while _unread(connection):
                        os.sched_yield()
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass
            except OSError:
                # The server has ended the connection before the rest came.
                pass
        return list(self.paths)


def _unread(connection: socket.socket) -> int:
    """Bytes that the peer has not read yet."""
    count = array.array("i", [0])
    fcntl.ioctl(connection, termios.TIOCOUTQ, count)
    return count[0]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("smuggling") / "s")
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.mark.attack("hides a request in a body that has a length and a coding")
@pytest.mark.parametrize("before", [True, False], ids=["length first", "coding first"])
def test_a_length_and_a_coding(site: Site, before: bool) -> None:
    body = LAST + HIDDEN
    length = b"Content-Length: %d" % len(body)
    for spelling in SPELLINGS:
        fields = (length, spelling) if before else (spelling, length)
        head = b"POST / HTTP/1.1\r\nHost: x\r\n" + b"\r\n".join(fields) + b"\r\n\r\n"
        assert "GET /hidden" not in site.send(head + body), spelling
        try:
            seen = http_head.parse_request(head.removesuffix(http_head.END))
        except LadingError:
            continue
        # What is passed on has the length alone, or a field of another name.
        assert all(name.lower() != "transfer-encoding" for name, _ in seen.fields), spelling


@pytest.mark.attack("hides a request behind a length that is none, or behind two")
def test_lengths(site: Site) -> None:
    for length in LENGTHS:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + length + b"\r\n\r\n"
        assert "GET /hidden" not in site.send(head + b"abcde" + HIDDEN), length
        with pytest.raises(LadingError):
            http_head.parse_request(head.removesuffix(http_head.END))
        with pytest.raises(LadingError):
            daemon_http.parse_head(head.removesuffix(http_head.END))


@pytest.mark.attack("hides a request behind a chunk that ends elsewhere for another reader")
def test_chunks(site: Site) -> None:
    for chunk in CHUNKS:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert "GET /hidden" not in site.send(head + chunk + LAST + HIDDEN), chunk


@pytest.mark.attack("sends start lines and fields that parsers end at different places")
def test_start_lines_and_fields(site: Site) -> None:
    for start in STARTS:
        head = start + b"\r\nHost: x"
        with pytest.raises(LadingError):
            http_head.parse_request(head)
        with pytest.raises(LadingError):
            daemon_http.parse_head(head)
    for field in FIELDS:
        head = b"GET / HTTP/1.1\r\nHost: x\r\n" + field
        with pytest.raises(LadingError):
            http_head.parse_request(head)
        with pytest.raises(LadingError):
            daemon_http.parse_head(head)


@pytest.mark.attack("has a part of a field taken for the start of a request")
def test_a_field_that_begins_a_packet_is_no_method(site: Site) -> None:
    seen = site.send(b"GET /seen HTTP/1.1\r\nHost: x\r\nX: ", b"TOUCH /x\r\n\r\n")
    assert seen == ["GET /seen"]


@pytest.mark.attack("hides a request in the body of one that asks for another protocol")
@pytest.mark.parametrize("protocol", [b"websocket", b"tunnel", b"ssh", b"h2c", b"TLS/1.0"])
@pytest.mark.parametrize("length", [b"Content-Length: 5", b"Transfer-Encoding: chunked"])
def test_other_protocols(site: Site, protocol: bytes, length: bytes) -> None:
    for more in (b"Connection: Upgrade\r\n", b"Connection: keep-alive, Upgrade\r\n", b""):
        head = b"POST / HTTP/1.1\r\nHost: x\r\n" + more + b"Upgrade: " + protocol + b"\r\n"
        body = b"abcde" if b"Length" in length else LAST
        seen = site.send(head + length + b"\r\n\r\n" + body + HIDDEN)
        # Without Connection: Upgrade most are ordinary requests, each of which has one end.
        assert "GET /hidden" not in seen or not more, (protocol, more)
