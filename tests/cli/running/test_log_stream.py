"""Log files as they grow."""

from __future__ import annotations

from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response

from lading.cli.running.following import LogFile
from lading.cli.running.log_lines import Unstamper
from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.core.errors import Unavailable
from lading.testing.asgi import AsgiTransport

_STAMP = b"2026-01-02T03:04:05.000000000Z "


@given(
    st.lists(st.binary(max_size=9).map(lambda text: text.replace(b"\n", b" ")), max_size=6),
    st.data(),
)
def test_however_it_is_cut_the_text_is_the_same(lines: list[bytes], data: st.DataObject) -> None:
    stamped = b"".join(_STAMP + line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stamped)), max_size=4)))
    unstamper = Unstamper()
    pieces = [
        stamped[start:end] for start, end in zip([0, *cuts], [*cuts, len(stamped)], strict=True)
    ]
    assert b"".join(unstamper.feed(piece) for piece in pieces) == b"".join(
        line + b"\n" for line in lines
    )


class _Log:
    """A server with one growing file."""

    def __init__(self) -> None:
        self.text: bytes | None = None
        self.knows_ranges = True
        self.is_broken = False

    async def __call__(self, scope: dict[str, object], receive: object, send: object) -> None:
        await self.answer(Request(scope, receive))(scope, receive, send)  # type: ignore[arg-type]

    def answer(self, request: Request) -> Response:
        if self.is_broken:
            return Response(status_code=503)
        if self.text is None:
            return Response(status_code=404)
        start = int(request.headers["range"].removeprefix("bytes=").rstrip("-"))
        if not self.knows_ranges:
            return Response(self.text)
        return (
            Response(self.text[start:], 206)
            if start < len(self.text)
            else Response(status_code=416)
        )


async def _read(log: LogFile) -> bytes:
    async with aclosing(log.read()) as pieces:
        return b"".join([piece async for piece in pieces])


@pytest.mark.parametrize("knows_ranges", [True, False])
async def test_only_what_is_new_is_read(knows_ranges: bool) -> None:
    server = _Log()
    server.knows_ranges = knows_ranges
    log = LogFile(ApiClient(AsgiTransport(server), "t"), "r", "c", "stdout.txt")  # type: ignore[arg-type]
    assert await _read(log) == b""
    server.text = _STAMP + b"one\n" + _STAMP[:9]
    assert await _read(log) == b"one\n"
    server.text += _STAMP[9:] + b"two"
    assert await _read(log) == b"two"
    assert await _read(log) == b""


async def test_raw_keeps_the_stamps_and_faults_are_raised() -> None:
    server = _Log()
    server.text = _STAMP + b"x\n"
    log = LogFile(ApiClient(AsgiTransport(server), "t", retry=NO_RETRY), "r", "c", "x", is_raw=True)  # type: ignore[arg-type]
    assert await _read(log) == server.text
    server.is_broken = True
    with pytest.raises(Unavailable):
        await _read(log)


async def test_a_log_that_breaks_off_goes_on_where_it_was() -> None:
    server = _Breaking(_STAMP + b"one\n" + _STAMP + b"two\n", most=20)
    log = LogFile(ApiClient(AsgiTransport(server), "t", retry=NO_RETRY), "r", "c", "x")  # type: ignore[arg-type]
    assert await _read(log) == b"one\ntwo\n"
    assert server.starts == [0, 20, 40, 60, 70]


class _Breaking(_Log):
    """A server whose answers break off."""

    def __init__(self, text: bytes, *, most: int) -> None:
        super().__init__()
        self.text, self._most = text, most
        self.starts: list[int] = []

    def answer(self, request: Request) -> Response:
        answer = super().answer(request)
        self.starts.append(int(request.headers["range"].removeprefix("bytes=").rstrip("-")))
        return _Short(answer.body[: self._most], 206) if answer.status_code == 206 else answer


class _Short(Response):
    """An answer that ends before it is whole."""

    async def __call__(self, scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": self.body, "more_body": True})  # type: ignore[operator]
        raise Unavailable("the connection broke")
