"""The small HTTP server: calls, refusals, limits, kept connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from lading.core.errors import Conflict, Forbidden, Unauthenticated
from lading.core.protocols.connection_limits import HttpLimits
from lading.core.protocols.http_head import HttpHead
from lading.net.http_service import HttpAnswer, HttpCall, HttpService


def check(head: HttpHead) -> None:
    if not head.get("authorization"):
        raise Unauthenticated("send the token")
    if head.get("authorization") != "Bearer right":
        raise Forbidden("another token")


async def echo(call: HttpCall) -> HttpAnswer:
    return HttpAnswer(body=json.dumps([call.query, call.form]).encode())


async def refuse(_: HttpCall) -> HttpAnswer:
    raise Conflict("not now")


async def fail(_: HttpCall) -> HttpAnswer:
    raise RuntimeError("a fault of ours")


ROUTES = {("GET", "/echo"): echo, ("POST", "/echo"): echo, ("GET", "/no"): refuse,
          ("GET", "/fault"): fail}  # fmt: skip


class Caller:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(
        self, start: str, *fields: str, body: bytes = b"", token: str = "right"
    ) -> tuple[int, bytes]:
        lines = (f"{start} HTTP/1.1", "Host: h", *fields)
        if token:
            lines = (*lines, f"Authorization: Bearer {token}")
        self.writer.write("\r\n".join((*lines, "", "")).encode() + body)
        return await self.receive(is_head=start.startswith("HEAD"))

    async def receive(self, *, is_head: bool = False) -> tuple[int, bytes]:
        async with asyncio.timeout(10):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            size = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
            body = b"" if is_head else await self.reader.readexactly(size)
        return int(head.split(" ")[1]), body

    async def is_over(self) -> bool:
        async with asyncio.timeout(10):
            return await self.reader.read() == b""


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    service = HttpService(ROUTES, check=check)
    port = await service.open("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    yield Caller(reader, writer)
    writer.close()
    await service.close()


async def test_calls_follow_one_another_on_a_connection(caller: Caller) -> None:
    form = b"b=2&a=1&a=3&empty="
    assert await caller.send("GET /echo?a=%C3%A4&a=b") == (200, b'[{"a": "\\u00e4"}, {}]')
    status, body = await caller.send("POST /echo?x=1", f"Content-Length: {len(form)}", body=form)
    assert (status, json.loads(body)) == (200, [{"x": "1"}, {"a": "1", "b": "2", "empty": ""}])
    chunks = b"4\r\na=1&\r\n3\r\nb=2\r\n0\r\n\r\n"
    status, body = await caller.send("POST /echo", "Transfer-Encoding: chunked", body=chunks)
    assert json.loads(body)[1] == {"a": "1", "b": "2"}
    assert await caller.send("HEAD /echo") == (200, b"")
    assert (await caller.send("GET /echo", "Connection: close"))[0] == 200
    assert await caller.is_over()


async def test_errors_are_json_and_leave_the_connection_open(caller: Caller) -> None:
    for start, status, message in (
        ("GET /no", 409, "not now"),
        ("GET /fault", 500, "internal error: see the log"),
        ("GET /none", 404, "Path not found: '/none'"),
        ("DELETE /echo", 405, "DELETE: this address has other methods"),
    ):
        answer = await caller.send(start)
        assert (answer[0], json.loads(answer[1])) == (status, {"errors": [message]})


@pytest.mark.parametrize(("token", "status"), [("", 401), ("wrong", 403)])
async def test_a_stranger_is_refused_before_the_path_and_the_body(
    caller: Caller, token: str, status: int
) -> None:
    body = b"x" * 100_000
    answer = await caller.send("POST /none", f"Content-Length: {len(body)}", body=body, token=token)
    assert answer[0] == status
    assert await caller.is_over()


@pytest.mark.parametrize(
    ("fields", "body", "status"),
    [
        (("Content-Length: 70000",), b"", 413),
        (("Transfer-Encoding: chunked",), b"11170\r\n" + b"x" * 70000 + b"\r\n0\r\n\r\n", 413),
        (("Transfer-Encoding: gzip",), b"", 400),
        (("Transfer-Encoding: chunked",), b"zz\r\n", 400),
        (("Content-Length: 600",), b"a&" * 300, 400),
        (("Content-Length: 1", "Content-Length: 2"), b"", 400),
        ((f"X: {'x' * 70000}",), b"", 400),
    ],
)
async def test_requests_are_bounded(
    caller: Caller, fields: tuple[str, ...], body: bytes, status: int
) -> None:
    assert (await caller.send("POST /echo", *fields, body=body))[0] == status
    caller.writer.write_eof()
    assert await caller.is_over()


async def test_a_body_that_is_announced_is_asked_for(caller: Caller) -> None:
    lines = ("POST /echo HTTP/1.1", "Authorization: Bearer right", "Expect: 100-continue",
             "Content-Length: 3", "", "")  # fmt: skip
    caller.writer.write("\r\n".join(lines).encode())
    assert await caller.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    caller.writer.write(b"a=1")
    assert await caller.receive() == (200, b'[{}, {"a": "1"}]')


async def test_a_caller_that_is_slow_is_dropped() -> None:
    service = HttpService(ROUTES, check=check, limits=HttpLimits(head_seconds=0.05))
    port = await service.open("127.0.0.1", 0)
    try:
        for start in (b"", b"POST /echo HTTP/1.1\r\nAuthorization: Bearer right\r\n"
                      b"Content-Length: 3\r\n\r\na"):  # fmt: skip
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(start)
            assert await Caller(reader, writer).is_over()
            writer.close()
    finally:
        await service.close()


async def test_an_address_that_is_taken_is_refused() -> None:
    service, second = (HttpService(ROUTES, check=check) for _ in range(2))
    port = await service.open("127.0.0.1", 0)
    with pytest.raises(OSError, match="in use"):
        await second.open("127.0.0.1", port)
    await second.close()
    await service.close()
