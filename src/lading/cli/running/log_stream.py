"""Log files of a container, read in pieces as they grow; timestamps are removed.

Each line of a log file begins with a timestamp and a blank. A line may come in several pieces.
Memory for a few pieces is enough for a log of any size.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import quote

from lading.client.api import ApiClient
from lading.core.errors import NotFound, RequestError, Unavailable

STAMP = len("2026-01-02T03:04:05.000000000Z ")
# 416 Range Not Satisfiable: there are no further bytes.
_NOTHING_MORE = 416
_PARTIAL = 206


class Unstamper:
    """Removes the timestamps, wherever the bytes are split."""

    # Bytes of the present line's timestamp that are still to be removed.
    def __init__(self) -> None:
        self._skip = STAMP

    def feed(self, data: bytes) -> bytes:
        """The text of these bytes, without timestamps."""
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
        """The bytes written since the last call, in pieces; nothing if the file does not exist
        (yet).

        After an interrupted response, the rest is requested. Raises Unavailable if the response to
        that has no further byte either, and the errors of the API.
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
                # Without progress a repetition would be endless.
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
        """The bytes of one response beyond those that were read."""
        async with self._api.stream(
            self._path, headers={"Range": f"bytes={self._offset}-"}
        ) as answer:
            # A server without ranges sends the whole file each time.
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
