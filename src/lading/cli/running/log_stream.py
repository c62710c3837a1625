"""A log file of a container, read as it grows, in pieces, and turned back into what the command
wrote.

Log files carry a timestamp and a blank at the start of each line. A line may come in several
pieces. A log of any size takes the memory of some pieces.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import quote

from lading.client.api import ApiClient
from lading.core.errors import NotFound, RequestError, Unavailable

STAMP = len("2026-01-02T03:04:05.000000000Z ")
_NOTHING_MORE = 416
_PARTIAL = 206


class Unstamper:
    """Takes the timestamps off, however the bytes are cut."""

    def __init__(self) -> None:
        self._skip = STAMP

    def feed(self, data: bytes) -> bytes:
        """The text of these bytes, without the stamps."""
        kept = []
        for line in _lines(data):
            text, self._skip = line[self._skip :], max(0, self._skip - len(line))
            kept.append(text)
            if line.endswith(b"\n"):
                self._skip = STAMP
        return b"".join(kept)


class LogFile:
    """One log file of one container of a request."""

    def __init__(
        self,
        api: ApiClient,
        request_uuid: str,
        container_uuid: str,
        name: str,
        *,
        is_raw: bool = False,
    ) -> None:
        self._api = api
        self._path = f"container_requests/{request_uuid}/log/{container_uuid}/{quote(name)}"
        self._unstamper = None if is_raw else Unstamper()
        self._offset = 0

    async def read(self) -> AsyncGenerator[bytes]:
        """The bytes that were written since the last call, in pieces; nothing when there is no such
        file (yet).

        An answer that breaks off is asked for again from there. Raises Unavailable when the answer
        to that has no further byte either, and what the API raises.
        """
        while True:
            begun = self._offset
            try:
                async with aclosing(self._new()) as pieces:
                    async for piece in pieces:
                        yield self._unstamper.feed(piece) if self._unstamper else piece
            except NotFound:
                return
            except Unavailable:
                if self._offset == begun:
                    raise
                continue
            except RequestError as error:
                if error.status == _NOTHING_MORE:
                    return
                raise
            if self._offset == begun:
                return

    async def _new(self) -> AsyncGenerator[bytes]:
        """The bytes that one answer has beyond those that were read."""
        async with self._api.stream(
            self._path, headers={"Range": f"bytes={self._offset}-"}
        ) as answer:
            # A server that knows no ranges sends the whole file each time.
            known = 0 if answer.status == _PARTIAL else self._offset
            async for chunk in answer.chunks:
                piece, known = chunk[known:], max(0, known - len(chunk))
                if piece:
                    self._offset += len(piece)
                    yield piece


def _lines(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines
