"""A log file of a container, read as it grows, and turned back into what the command wrote.

Log files carry a timestamp and a blank at the start of each line (dispatch-contract A.7); a line may come in pieces.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from urllib.parse import quote

from lading.client.api import ApiClient
from lading.core.errors import NotFound, RequestError

_STAMP = len("2026-01-02T03:04:05.000000000Z ")
_NOTHING_MORE = 416


class Unstamper:
    """Takes the timestamps off, however the bytes are cut."""

    def __init__(self) -> None:
        self._skip = _STAMP

    def feed(self, data: bytes) -> bytes:
        """The text of these bytes, without the stamps."""
        kept = []
        for line in _lines(data):
            text, self._skip = line[self._skip :], max(0, self._skip - len(line))
            kept.append(text)
            if line.endswith(b"\n"):
                self._skip = _STAMP
        return b"".join(kept)


class LogFile:
    """One log file of one container of a request."""

    def __init__(
        self, api: ApiClient, request_uuid: str, container_uuid: str, name: str, *, is_raw: bool = False
    ) -> None:
        self._api = api
        self._path = f"container_requests/{request_uuid}/log/{container_uuid}/{quote(name)}"
        self._unstamper = None if is_raw else Unstamper()
        self._offset = 0

    async def read(self) -> AsyncGenerator[bytes]:
        """What was written since the last time, in pieces; nothing when there is no such file (yet)."""
        while True:
            try:
                answer = await self._api.raw("GET", self._path, headers={"Range": f"bytes={self._offset}-"})
            except NotFound:
                return
            except RequestError as error:
                if error.status == _NOTHING_MORE:
                    return
                raise
            # A server that knows no ranges sends the whole file each time.
            data = answer.body if answer.status == 206 else answer.body[self._offset :]
            if not data:
                return
            self._offset += len(data)
            yield self._unstamper.feed(data) if self._unstamper else data


def _lines(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines
