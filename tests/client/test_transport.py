from __future__ import annotations

import asyncio
import base64
import hashlib
import random
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response as Answer
from starlette.responses import StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from lading.client.file_parts import FilePart
from lading.client.transport import HttpTransport, Transport
from lading.core.errors import Forbidden, Invalid, Unavailable
from lading.testing.asgi import AsgiTransport, FlakyTransport, ListeningServer

Serve = Callable[..., Awaitable[ListeningServer]]


async def _echo(request: Request) -> Answer:
    body = await request.body()
    length = request.headers.get("content-length", "none")
    return Answer(
        body,
        201,
        {"X-Method": request.method, "X-Query": str(request.query_params), "X-Length": length},
    )


async def _count(request: Request) -> Answer:
    sizes = [len(chunk) async for chunk in request.stream()]
    return Answer(str(sum(sizes)))


async def _refuse(request: Request) -> Answer:
    return Answer(
        "no room", 507, {"Connection": "close"} if "close" in request.query_params else {}
    )


async def _slow(request: Request) -> Answer:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.Event().wait()

    if "begin" not in request.query_params:
        await asyncio.Event().wait()
    return StreamingResponse(chunks())


async def _talk(socket: WebSocket) -> None:
    if "authorization" not in socket.headers:
        await socket.close()
        return
    await socket.accept()
    async for text in socket.iter_text():
        if text == "end":
            await socket.close()
            return
        await socket.send_text(f"{socket.headers['authorization']} {text}")


APP = Starlette(
    routes=[
        Route("/echo/{rest:path}", _echo, methods=["GET", "PUT", "POST", "DELETE"]),
        Route("/count", _count, methods=["PUT"]),
        Route("/refuse", _refuse, methods=["PUT"]),
        Route("/slow", _slow),
        WebSocketRoute("/talk", _talk),
    ]
)


@pytest.fixture(params=["unix", "tcp", "tls", "unverified", "asgi"])
async def transport(
    request: pytest.FixtureRequest, serve: Serve, tmp_path: Path, certificate: tuple[Path, Path]
) -> AsyncGenerator[Transport]:
    made = await _connect(request.param, APP, serve, tmp_path, certificate)
    yield made
    await made.close()


async def _connect(
    kind: str, app: ASGIApp, serve: Serve, tmp_path: Path, certificate: tuple[Path, Path]
) -> HttpTransport | AsgiTransport:
    if kind == "asgi":
        return AsgiTransport(app)
    if kind == "unix":
        await serve(app, uds=str(tmp_path / "api.sock"))
        return HttpTransport(unix_socket=tmp_path / "api.sock")
    if kind == "tcp":
        return HttpTransport(f"http://127.0.0.1:{(await serve(app)).port}/")
    server = await serve(app, ssl_certfile=certificate[0], ssl_keyfile=certificate[1])
    verify = certificate[0] if kind == "tls" else False
    return HttpTransport(f"https://127.0.0.1:{server.port}", verify=verify)


async def test_request(transport: Transport) -> None:
    answer = await transport.request("PUT", "/echo/x?a=b%20c", headers={"X-Y": "z"}, body=b"body")
    assert (answer.status, answer.body) == (201, b"body")
    assert answer.headers["x-method"] == "PUT"
    assert answer.headers["x-query"] == "a=b+c"


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
async def test_request_without_a_body(transport: Transport, method: str) -> None:
    answer = await transport.request(method, "/echo/", headers={})
    assert (answer.status, answer.body, answer.headers["x-method"]) == (201, b"", method)


async def test_a_large_body_goes_with_its_length(transport: Transport) -> None:
    body = bytearray(b"0123456789abcdef" * 100_000)
    answer = await transport.request("PUT", "/echo/", headers={}, body=body)
    assert answer.headers["x-length"] == str(len(body))
    assert answer.body == body


async def test_requests_in_parallel(transport: Transport) -> None:
    asked = [
        transport.request("PUT", "/echo/", headers={}, body=str(number).encode())
        for number in range(50)
    ]
    assert [answer.body for answer in await asyncio.gather(*asked)] == [
        str(number).encode() for number in range(50)
    ]


async def test_a_body_may_come_in_pieces(transport: Transport) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield bytes(100_000)

    async with transport.stream("PUT", "/count", headers={}, body=pieces()) as answer:
        assert await answer.read() == b"4000000"


async def test_a_part_of_a_file(transport: Transport, tmp_path: Path) -> None:
    content = random.Random(1).randbytes(3_000_000)
    (tmp_path / "file").write_bytes(content)
    with (tmp_path / "file").open("rb") as file:
        for start, length in ((0, 3_000_000), (1_234_567, 1_000_000), (5, 0)):
            part, headers = FilePart(file.fileno(), start, length), {"Content-Length": str(length)}
            async with transport.stream("PUT", "/echo/", headers=headers, body=part) as answer:
                assert await answer.read() == content[start : start + length]
    assert (await transport.request("GET", "/echo/", headers={})).status == 201


async def test_a_part_that_is_not_there_is_said(transport: Transport, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(1000))
    with (
        (tmp_path / "file").open("rb") as file,
        pytest.raises((Unavailable, Invalid), match="1000 bytes are left"),
    ):
        part, headers = FilePart(file.fileno(), 0, 2000), {"Content-Length": "2000"}
        async with transport.stream("PUT", "/echo/", headers=headers, body=part):
            pass


@pytest.mark.parametrize("query", ["", "?close=1"])
async def test_a_part_that_is_refused_before_it_was_read(
    transport: Transport, tmp_path: Path, query: str
) -> None:
    with (tmp_path / "file").open("w+b") as file:
        file.truncate(64 << 20)
        part, headers = FilePart(file.fileno(), 0, 64 << 20), {"Content-Length": str(64 << 20)}
        async with transport.stream("PUT", f"/refuse{query}", headers=headers, body=part) as answer:
            assert (answer.status, await answer.read()) == (507, b"no room")


async def test_an_answer_may_be_left_in_the_middle(transport: Transport) -> None:
    async with transport.stream("GET", "/slow?begin=1", headers={}) as answer:
        assert await anext(answer.chunks) == b"first"
    assert (await transport.request("GET", "/echo/", headers={})).status == 201


async def test_no_answer_in_time_is_unavailable(transport: Transport) -> None:
    with pytest.raises(Unavailable, match=r"no answer within 0.05 s|nothing heard"):
        await transport.request("GET", "/slow", headers={}, timeout=0.05)
    with pytest.raises(Unavailable):
        async with transport.stream("GET", "/slow?begin=1", headers={}, timeout=0.05) as answer:
            await answer.read()


async def test_websocket(transport: Transport) -> None:
    async with transport.websocket("/talk", headers={"Authorization": "me"}) as socket:
        await socket.send("hello")
        assert await socket.receive(5) == "me hello"
        with pytest.raises(Unavailable, match="nothing heard"):
            await socket.receive(0.01)
        await socket.send("end")
        assert await socket.receive(5) is None
        with pytest.raises(Unavailable):
            await socket.send("more")


async def test_a_ping_over_a_connection_that_is_gone_is_unavailable() -> None:
    """What came before the connection broke is read after a pause of this machine; the pong cannot
    be sent.
    """

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        key = next(
            line for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:")
        )
        digest = hashlib.sha1(
            key.split(b": ")[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        ).digest()
        accept = base64.b64encode(digest)
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n" + b"\x89\x00"
        )
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        gone.set()

    gone = asyncio.Event()
    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with HttpTransport(f"http://127.0.0.1:{port}") as transport:
            with pytest.raises(Unavailable, match="the connection is gone"):
                async with transport.websocket("/", headers={}) as connection:
                    await gone.wait()
                    for _ in range(20):
                        await asyncio.sleep(0)
                    await connection.receive(5.0)


async def test_a_refused_websocket_is_forbidden(transport: Transport) -> None:
    with pytest.raises(Forbidden):
        async with transport.websocket("/talk", headers={}):
            pass


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (HttpTransport("http://127.0.0.1:1"), "Connection refused"),
        (HttpTransport("http://no-such-host.invalid:1"), "not known|name resolution"),
        (HttpTransport(unix_socket="/nonexistent"), "No such file or directory"),
    ],
)
async def test_no_server_is_unavailable(made: HttpTransport, why: str) -> None:
    async with made as transport:
        with pytest.raises(Unavailable, match=f"cannot be reached: .*({why})$"):
            await transport.request("GET", "/", headers={})
        with pytest.raises(Unavailable, match=f"cannot be reached: .*({why})$"):
            async with transport.stream("GET", "/", headers={}):
                pass
        with pytest.raises(Unavailable, match=f"cannot be reached: .*({why})$"):
            async with transport.websocket("/", headers={}):
                pass


async def test_a_certificate_of_nobody_we_know_is_unavailable(
    serve: Serve, certificate: tuple[Path, Path]
) -> None:
    server = await serve(APP, ssl_certfile=certificate[0], ssl_keyfile=certificate[1])
    async with HttpTransport(f"https://127.0.0.1:{server.port}") as transport:
        with pytest.raises(Unavailable, match="certificate"):
            await transport.request("GET", "/echo/", headers={})


async def test_close_is_idempotent() -> None:
    transport = HttpTransport()
    await transport.close()
    await transport.close()


async def test_a_flaky_transport_loses_by_its_seed() -> None:
    async def outcomes(seed: int) -> list[bool]:
        flaky, found = FlakyTransport(AsgiTransport(APP), seed=seed), []
        for _ in range(20):
            try:
                await flaky.request("GET", "/echo/", headers={})
                found.append(True)
            except Unavailable:
                found.append(False)
        return found

    first = await outcomes(1)
    assert first == await outcomes(1) != await outcomes(2)
    assert {True, False} == set(first)


def test_importing_the_client_brings_little() -> None:
    code = (
        "import sys, lading.client.api;"
        "print(*{name.partition('.')[0] for name in sys.modules} & "
        "{'starlette', 'uvicorn', 'click', 'rich', 'yaml', "
        "'aiodocker', 'cryptography', 'websockets'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
