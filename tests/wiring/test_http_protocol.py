"""The extension on a real server, over a Unix socket and TLS, with the loop that serves."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import uvicorn
import uvloop
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from lading.api.http import TAKE_OVER
from lading.blobs.transfer import RECEIVE_INTO, take_in
from lading.blobs.transfer_memory import Memory
from lading.wiring.http_protocol import ReceivingProtocol

BODY = os.urandom(3 << 20)
HASH = hashlib.md5(BODY).hexdigest()


class Site:
    """A server in a thread that answers with the MD5 of the body, or gives the body up half-way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bodies: list[bytearray] = []
        self.ready, self.disconnected = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._serve()))

    def start(self) -> None:
        self._thread.start()
        assert self.ready.wait(60)

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(20)

    async def _serve(self) -> None:
        config = uvicorn.Config(
            self._app,
            http=ReceivingProtocol,
            loop="none",
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,
        )
        self.server = uvicorn.Server(config)
        with closing(socket.socket(socket.AF_UNIX)) as listening:
            listening.bind(str(self.path))
            listening.listen()
            asyncio.get_running_loop().call_later(0.05, self.ready.set)
            await self.server.serve([listening])

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        length = int(request.headers.get("content-length", 0))
        self.bodies.append(bytearray(length))
        room = await Memory(0).begin(length, "body")
        room.view = view = memoryview(self.bodies[-1])
        assert (RECEIVE_INTO in scope.get("extensions", {})) == (length > 0)
        try:
            async with asyncio.timeout(0.2 if scope["path"] == "/impatient" else 20):
                await take_in(request, room, length=length, followers=())
            text = hashlib.md5(view).hexdigest()
        except TimeoutError:
            text = "too slow"
        except ClientDisconnect:
            self.disconnected.set()
            return
        await PlainTextResponse("TOUCHED." if scope["method"] == "TOUCH" else text)(
            scope, receive, send
        )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "s")
    made.start()
    try:
        yield made
    finally:
        made.stop()


def connect(site: Site) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(10)
    made.connect(str(site.path))
    return made


def head(length: int, path: str = "/", more: str = "") -> bytes:
    return f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{more}\r\n".encode()


def answer(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < 8:
        part = connection.recv(1 << 16)
        if not part:
            break
        data += part
    return data


def test_one_request_after_another_on_one_connection(site: Site) -> None:
    with connect(site) as connection:
        for body in (BODY, b"small", b"", BODY):
            connection.sendall(head(len(body)) + body)
            assert hashlib.md5(body).hexdigest().encode() in answer(connection)


def test_the_method_touch_passes(site: Site) -> None:
    with connect(site) as connection:
        for method, said in (
            ("TOUCH", b"TOUCHED."),
            ("PATCH", hashlib.md5(b"").hexdigest().encode()),
        ) * 2:
            connection.sendall(f"{method} /x HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert said in answer(connection)


def test_no_connection_keeps_hold_of_the_memory(site: Site) -> None:
    with connect(site) as connection:
        connection.sendall(head(len(BODY)) + BODY)
        assert HASH.encode() in answer(connection)
        connection.sendall(head(0))
        answer(connection)
        # Raises BufferError while anybody looks at it.
        site.bodies[0].append(0)


def test_the_next_request_may_follow_the_body_at_once(site: Site) -> None:
    with connect(site) as connection:
        sender = threading.Thread(target=connection.sendall, args=((head(len(BODY)) + BODY) * 2,))
        sender.start()
        text = b""
        while text.count(HASH.encode()) < 2:
            text += connection.recv(1 << 16)
        sender.join()


def test_a_client_may_wait_to_be_asked_for_the_body(site: Site) -> None:
    with connect(site) as connection:
        connection.sendall(head(len(BODY), more="Expect: 100-continue\r\n"))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100 Continue\r\n")
        connection.sendall(BODY)
        assert HASH.encode() in answer(connection)


@pytest.mark.parametrize("sent", [10, 1 << 20])
def test_a_client_that_leaves_half_way_is_noticed(site: Site, sent: int) -> None:
    with connect(site) as connection:
        connection.sendall(head(len(BODY)) + BODY[:sent])
    assert site.disconnected.wait(60)


def test_a_body_that_is_given_up_ends_the_connection(site: Site) -> None:
    with connect(site) as connection:
        connection.sendall(head(len(BODY), "/impatient") + BODY[: 1 << 20])
        text = answer(connection)
        assert b"too slow" in text
        assert b"connection: close" in text
        with suppress(ConnectionError):
            assert connection.recv(1) == b""


class Switching(Site):
    """Takes connections over and sends back what it gets; says no to `/no`."""

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"] if scope["type"] == "http" else b""
        if (
            scope["type"] == "websocket"
            or scope["path"] == "/no"
            or TAKE_OVER not in scope.get("extensions", {})
        ):
            await PlainTextResponse(f"{scope['type']} no", status_code=403)(scope, receive, send)
            return
        pipe = await scope["extensions"][TAKE_OVER](
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n" + body
        )
        while data := await pipe.reader.read(1 << 16):
            pipe.writer.write(data)
            await pipe.writer.drain()
        await pipe.close()
        self.disconnected.set()


@pytest.fixture
def switching(tmp_path: Path) -> Iterator[Switching]:
    site = Switching(tmp_path / "s")
    site.start()
    try:
        yield site
    finally:
        site.stop()


def _switch(site: Site, path: str = "/", protocol: str = "echo") -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(20)
    client.connect(str(site.path))
    head = (
        f"POST {path} HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\n"
        f"Upgrade: {protocol}\r\nContent-Length: 4\r\n\r\n"
    )
    client.sendall(head.encode() + b"form")
    return client


def _receive(client: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size and (part := client.recv(1 << 16)):
        got += part
    return got


def test_a_connection_is_taken_over(switching: Switching) -> None:
    for protocol in ("echo", "websocket"):
        with _switch(switching, protocol=protocol) as client:
            head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\nform"
            assert _receive(client, len(head)) == head
            threading.Thread(target=client.sendall, args=(BODY,)).start()
            assert _receive(client, len(BODY)) == BODY
        assert switching.disconnected.wait(20)
        switching.disconnected.clear()


GO = (
    b"POST https://h:1/x HTTP/1.1\r\nAuthorization: Bearer t\r\nHost: h:1\r\n"
    b"Upgrade: %b\r\nContent-Length: 4\r\n\r\n"
)


def _ask_alone(site: Site, protocol: bytes, rest: bytes = b"form") -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(20)
    client.connect(str(site.path))
    client.sendall(GO % protocol + rest)
    return client


@pytest.mark.parametrize("protocol", [b"ssh", b"tunnel", b"SSH"])
def test_ssh_and_tunnels_need_no_connection_header(switching: Switching, protocol: bytes) -> None:
    with _ask_alone(switching, protocol) as client:
        head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\nform"
        assert _receive(client, len(head)) == head
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert _receive(client, 18) == b"GET / HTTP/1.1\r\n\r\n"
    assert switching.disconnected.wait(20)


def test_what_comes_early_is_kept_or_refused(switching: Switching) -> None:
    with _ask_alone(switching, b"ssh", b"fo") as client:
        client.sendall(b"rm")
        assert _receive(client, 12).startswith(b"HTTP/1.1 101")
    with _ask_alone(switching, b"ssh", b"formGET / HTTP/1.1\r\nHost: h\r\n\r\n") as client:
        assert _receive(client, 12).startswith(b"HTTP/1.1 400")


def test_a_connection_header_is_needed_for_anything_else(switching: Switching) -> None:
    with _ask_alone(switching, b"echo") as client:
        assert _receive(client, 12).startswith(b"HTTP/1.1 403")


def test_a_refusal_ends_the_connection(switching: Switching) -> None:
    with _switch(switching, "/no") as client:
        assert _receive(client, 1 << 20).startswith(b"HTTP/1.1 403 ")


def test_a_stopping_server_ends_what_was_taken_over(switching: Switching) -> None:
    with _switch(switching) as client:
        assert _receive(client, 10).startswith(b"HTTP/1.1 1")
        switching.server.should_exit = True
        _receive(client, 1 << 20)
        assert switching.disconnected.wait(20)


def refused(connection: socket.socket) -> bytes:
    """All that comes until the other side ends."""
    data = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            data += part
    return data


def test_a_head_without_an_end_is_refused(site: Site) -> None:
    with connect(site) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(100):
                connection.sendall(b"X: %s\r\n" % (b"v" * 100_000))
        assert refused(connection).startswith(b"HTTP/1.1 431 ") or connection.recv(1) == b""


def test_a_large_head_is_refused_also_when_it_comes_at_once(site: Site) -> None:
    with connect(site) as connection:
        connection.sendall(head(0, more=f"X: {'v' * 66_000}\r\n"))
        assert answer(connection).startswith(b"HTTP/1.1 431 ")
        connection.shutdown(socket.SHUT_WR)
        assert refused(connection) == b""


def test_the_fields_of_a_trailer_are_not_kept(site: Site) -> None:
    with connect(site) as connection:
        start = b"PUT /impatient HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(start + b"0\r\n" + b"X: %s\r\n" % (b"v" * 70_000))
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(100):
                connection.sendall(b"X: %s\r\n" % (b"v" * 100_000))
        refused(connection)
    with connect(site) as connection:
        connection.sendall(head(3) + b"foo")
        assert hashlib.md5(b"foo").hexdigest().encode() in answer(connection)


def test_requests_that_wait_are_few(site: Site) -> None:
    with connect(site) as connection:
        connection.sendall(head(0) * 100)
        assert refused(connection).count(b"HTTP/1.1 200") < 100


def test_the_rest_of_a_refused_body_is_forgotten_up_to_a_bound(site: Site) -> None:
    with connect(site) as connection:
        connection.sendall(head(64 << 20, "/impatient") + b"x" * 100)
        assert b"too slow" in answer(connection)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(64):
                connection.sendall(b"x" * (1 << 20))
