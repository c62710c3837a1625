from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message

from lading.core.errors import Corrupt
from lading.fileserving import responses
from lading.fileserving.responses import FileResponse


class Ends:
    """Both ends of a connection; the reader leaves when told."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.leave = asyncio.Event()
        self.began = asyncio.Event()

    async def receive(self) -> Message:
        await self.leave.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        self.began.set()

    async def answer(self, answer: FileResponse, method: str = "GET") -> None:
        await responses.send_response(answer, method, self.receive, self.send, common={"X": "y"})

    @property
    def complete(self) -> bool:
        return not self.sent[-1].get("more_body", False) and self.sent[-1]["type"].endswith("body")


async def pieces(*, fail: bool = False, closed: list[bool] | None = None) -> AsyncGenerator[bytes]:
    try:
        yield b"a"
        if fail:
            raise Corrupt("x")
        yield b"b"
    finally:
        if closed is not None:
            closed.append(True)


async def test_a_whole_body() -> None:
    ends = Ends()
    await ends.answer(FileResponse(body=b"abc", headers={"A": "b"}))
    assert ends.sent[0]["headers"] == [(b"x", b"y"), (b"a", b"b"), (b"content-length", b"3")]
    assert ends.sent[1]["body"] == b"abc"


@pytest.mark.parametrize("answer", [FileResponse(body=b"abc"), FileResponse(status=204)])
async def test_no_body(answer: FileResponse) -> None:
    ends = Ends()
    await ends.answer(answer, "HEAD")
    assert [one.get("body") for one in ends.sent] == [None, b""]


async def test_a_stream() -> None:
    ends, closed = Ends(), list[bool]()
    await ends.answer(FileResponse(stream=await responses.begin_stream(pieces(closed=closed))))
    assert b"".join(one.get("body", b"") for one in ends.sent) == b"ab"
    assert (ends.complete, closed) == (True, [True])
    ends, closed = Ends(), []
    await ends.answer(
        FileResponse(stream=await responses.begin_stream(pieces(closed=closed))), "HEAD"
    )
    assert (len(ends.sent), closed) == (2, [True])


async def test_a_stream_that_fails_is_broken_off() -> None:
    ends = Ends()
    await ends.answer(FileResponse(stream=pieces(fail=True)))
    assert not ends.complete


async def test_a_fault_at_once_is_raised_before_anything_is_sent() -> None:
    async def broken() -> AsyncGenerator[bytes]:
        if not stopped:
            raise Corrupt("x")
        yield b""

    stopped = False
    with pytest.raises(Corrupt):
        await responses.begin_stream(broken())


async def test_it_ends_with_its_reader() -> None:
    ends, closed = Ends(), list[bool]()

    async def endless() -> AsyncGenerator[bytes]:
        try:
            yield b"a"
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    going = asyncio.create_task(ends.answer(FileResponse(stream=endless())))
    await ends.began.wait()
    ends.leave.set()
    await going
    assert (closed, ends.complete) == ([True], False)


async def test_a_fault_of_ours_is_not_hidden() -> None:
    async def broken() -> AsyncGenerator[bytes]:
        yield b"a"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Ends().answer(FileResponse(stream=broken()))
