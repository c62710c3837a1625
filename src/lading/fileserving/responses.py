"""HTTP of files: responses.

- Responses are whole bodies, or streams that end when the reader disconnects. A stream whose source
  fails after its start is aborted, so that no reader takes a part for the whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from starlette.types import Receive, Send

from lading.core.errors import LadingError
from lading.process.telemetry import event

# Seconds without progress.
_STALLED = 600.0
_logger = logging.getLogger("lading.fileserving")


@dataclass(slots=True, kw_only=True)
class FileResponse:
    """A response: status, headers, and a body, which is `stream` if set, else `body`."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    stream: AsyncGenerator[bytes] | None = None


async def begin_stream(stream: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The same stream with its first piece fetched, so that an early error gets its own status."""
    try:
        first = await anext(stream, b"")
    except BaseException:
        # The body will not be iterated over any more, so its files would stay open.
        await stream.aclose()
        raise
    rest = _rest(first, stream)
    # After the start, closing this generator closes the stream.
    await anext(rest)
    return rest


async def send_response(
    answer: FileResponse, method: str, receive: Receive, send: Send, *, common: Mapping[str, str]
) -> None:
    """Send a response, without a body for HEAD."""
    headers = {**common, **answer.headers}
    # 204 and 304 have no body, and no length.
    if answer.stream is None and answer.status not in (204, 304):
        headers.setdefault("Content-Length", str(len(answer.body)))
    lines = [
        (name.lower().encode(), value.encode("latin-1", "replace"))
        for name, value in headers.items()
    ]
    start = {"type": "http.response.start", "status": answer.status, "headers": lines}
    if answer.stream is None or method == "HEAD":
        if answer.stream is not None:
            # HEAD has the headers of a GET; its stream is not started.
            await answer.stream.aclose()
        await send(start)
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else answer.body})
        return
    # Both at once: the source may wait for a block while the reader has left.
    sending = asyncio.create_task(_send_stream(answer.stream, start, send), name="answer")
    leaving = asyncio.create_task(_left(receive), name="reader")
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not sending.done():
            sending.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
    # Errors of sending are raised here.
    if not sending.cancelled():
        sending.result()


async def _send_stream(stream: AsyncGenerator[bytes], start: dict[str, object], send: Send) -> None:
    async with aclosing(stream):
        await send(start)
        try:
            async for piece in stream:
                # A stalled reader must not hold open files forever.
                async with asyncio.timeout(_STALLED):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        except (LadingError, TimeoutError) as error:
            event(_logger, "answer broken off", fault=str(error) or "the reader stood still")
            return
    await send({"type": "http.response.body", "body": b""})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _rest(first: bytes, stream: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(stream):
        # For `begin`: started, but nothing sent.
        yield b""
        yield first
        async for piece in stream:
            yield piece
