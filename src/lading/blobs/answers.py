"""What the block store answers with: errors as plain text, and blocks."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from lading.blobs.memory import Room
from lading.blobs.volume import Buffer
from lading.core.errors import Full, LadingError, TooLarge, Unavailable

ANY_ORIGIN: Final = {"Access-Control-Allow-Origin": "*"}
_AGAIN: Final = "2"
_CHUNK: Final = 1 << 20
_TRANSFER: Final = 600.0


def refusal(error: LadingError) -> Response:
    """An error as its one line; when to come again, if that may help."""
    headers = dict(ANY_ORIGIN)
    if isinstance(error, Unavailable) and not isinstance(error, Full):
        headers["Retry-After"] = _AGAIN
    if isinstance(error, TooLarge | Unavailable):
        # Part of a body may still be under way: end the connection rather than read it.
        headers["Connection"] = "close"
    return PlainTextResponse(f"{error.message}\n", status_code=error.status, headers=headers)


class BlockAnswer(Response):
    """A block, sent in pieces; its room is given back once it has been sent, whatever happens."""

    def __init__(self, data: Buffer, size: int, headers: dict[str, str], *, room: Room | None = None) -> None:
        super().__init__(b"", headers={**headers, "Content-Length": str(size)}, media_type="application/octet-stream")
        self._data = memoryview(data)
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send it."""
        try:
            # A reader that stands still must not keep others from their turn.
            async with asyncio.timeout(_TRANSFER):
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                for start in range(0, len(self._data), _CHUNK):
                    piece = self._data[start : start + _CHUNK]
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._data = memoryview(b"")
            if self._room is not None:
                self._room.release()
