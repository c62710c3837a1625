"""Responses of the block store: errors as plain text, and blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from lading.blobs.body_reader import WINDOW
from lading.blobs.memory import MemoryRoom
from lading.blobs.volume import Buffer
from lading.core.errors import Full, LadingError, TooLarge, Unavailable
from lading.core.pools import MinimumRate
from lading.net.peer import end

ANY_ORIGIN: Final = {"Access-Control-Allow-Origin": "*"}
# Seconds, for Retry-After.
_AGAIN: Final = "2"
# Bytes sent at a time.
_CHUNK: Final = 1 << 20
# Bytes of the last piece, which is copied.
_LAST: Final = 1 << 17


def refusal(error: LadingError) -> Response:
    """An error as one line of text, with Retry-After if a retry may help."""
    headers = dict(ANY_ORIGIN)
    if isinstance(error, Unavailable) and not isinstance(error, Full):
        headers["Retry-After"] = _AGAIN
    if isinstance(error, TooLarge | Unavailable):
        # Unread parts of a body may still arrive: close the connection instead of reading them.
        headers["Connection"] = "close"
    return PlainTextResponse(f"{error.message}\n", status_code=error.status, headers=headers)


class BlockAnswer(Response):
    """A block, sent in pieces; its memory is released afterwards, also on failure."""

    def __init__(
        self,
        data: Buffer,
        size: int,
        headers: dict[str, str],
        *,
        room: MemoryRoom | None = None,
        rate: int = 0,
    ) -> None:
        """`rate`: least bytes a second that the reader must take; 0 disables the limit."""
        super().__init__(
            b"",
            headers={**headers, "Content-Length": str(size)},
            media_type="application/octet-stream",
        )
        self._data = memoryview(data)
        self._room = room
        self._pace = MinimumRate(rate, WINDOW)

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,  # noqa: ARG002 (ASGI)
        send: Send,
    ) -> None:
        """Send the response."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            for piece in self._pieces():
                # A stalled reader must not hold memory that other requests wait for.
                async with asyncio.timeout(self._pace.left):
                    await self._send(piece, send)
            async with asyncio.timeout(self._pace.left):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            await end(scope)
        # The connection is closed: the announced length can no longer be sent.
        finally:
            self._data = memoryview(b"")
            if self._room is not None:
                self._room.release()

    async def _send(self, piece: Buffer, send: Send) -> None:
        now = asyncio.get_running_loop().time
        began = now()
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        self._pace.note(len(piece), now() - began)

    def _pieces(self) -> Iterator[Buffer]:
        size = len(self._data)
        # The server may hold the last piece for long: it must be a copy, not a view of the shared
        # memory.
        last = max(0, size - _LAST) if size > _CHUNK else size
        for start in range(0, last, _CHUNK):
            yield self._data[start : min(start + _CHUNK, last)]
        if last < size:
            yield bytes(self._data[last:])
