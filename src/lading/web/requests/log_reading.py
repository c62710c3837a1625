"""Reads the log files of a container, in parts of bounded size, however long they are."""

from __future__ import annotations

import heapq
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from lading.core.errors import LadingError
from lading.web.requests.log_lines import LogLine, LogPart, parse_line, split
from lading.web.visit import Visit

_PART: Final = 192 << 10
"""Bytes that are read for one view."""
_SEARCHED: Final = 256 << 20
"""Bytes of a file that a search reads."""
_NOTHING_MORE: Final = 416
_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+)")


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The log files of one container of a request."""

    visit: Visit
    request: str
    container: str

    async def names(self) -> list[str]:
        """The names of the files."""
        directory = f"container_requests/{self.request}/log/{self.container}/"
        listing: Any = await self.visit.api.request("GET", directory)
        return sorted(str(entry["name"]) for entry in listing["items"])

    def path(self, name: str) -> str:
        """Path of a file in the API."""
        return f"/arvados/v1/container_requests/{self.request}/log/{self.container}/{quote(name)}"

    async def before(self, name: str, end: int | None, *, is_growing: bool = False) -> LogPart:
        """The last lines before byte `end`, or of the file; of one that is growing, whole lines."""
        if end == 0:
            return LogPart(lines=[], start=0, end=0, size=0)
        span = f"-{_PART}" if end is None else f"{max(0, end - _PART)}-{end - 1}"
        data, start, size = await self._read(name, span)
        if is_growing:
            data = data[: data.rfind(b"\n") + 1]
        lines = split(data, start, source=name, is_cut=start > 0)
        first = lines[0].at if lines else start
        return LogPart(lines=lines, start=first, end=start + len(data), size=size)

    async def after(self, name: str, start: int, *, is_growing: bool) -> LogPart:
        """The lines after byte `start`; of a file that is growing, whole lines."""
        data, _, size = await self._read(name, f"{start}-{start + _PART - 1}")
        is_cut = start + len(data) < size
        complete = data
        if is_growing or is_cut:
            # A line that fills the part is taken as it is.
            complete = data[: data.rfind(b"\n") + 1] or (data if len(data) == _PART else b"")
        lines = split(complete, start, source=name, is_cut=False)
        end = start + len(complete)
        return LogPart(lines=lines, start=start, end=end, size=size, is_cut=is_cut)

    async def near(self, name: str, at: int) -> LogPart:
        """The lines before and after byte `at`."""
        begin = max(0, at - _PART // 2)
        data, start, size = await self._read(name, f"{begin}-{at + _PART // 2}")
        lines = split(data, start, source=name, is_cut=start > 0)
        return LogPart(lines=lines, start=start, end=start + len(data), size=size)

    async def lines(self, name: str, *, most: int = _SEARCHED) -> AsyncGenerator[tuple[int, bytes]]:
        """Place and bytes of each line in the first `most` bytes; very long lines come in
        pieces.
        """
        at, unfinished = 0, b""
        async with (
            self.visit.api.stream(self.path(name)) as answer,
            aclosing(_bounded(answer.chunks, most)) as pieces,
        ):
            async for piece in pieces:
                *finished, unfinished = (unfinished + piece).split(b"\n")
                for line in finished:
                    yield at, line
                    at += len(line) + 1
                # A line without an end must not fill the memory.
                if len(unfinished) > _PART:
                    yield at, unfinished
                    at, unfinished = at + len(unfinished), b""
        if unfinished:
            yield at, unfinished

    async def find(self, names: Sequence[str], query: str, most: int) -> list[LogLine]:
        """The first lines with a text in each file, together in order of time; upper and lower case
        are the same.
        """
        needle, matches = query.encode().lower(), list[LogLine]()
        for name in names:
            hits = 0
            async with aclosing(self.lines(name)) as lines:
                async for at, line in lines:
                    if needle in line.lower():
                        matches.append(parse_line(line, at, source=name))
                        hits += 1
                        if hits == most:
                            break
        return sorted(matches, key=lambda line: line.order)[:most]

    async def merged(self, names: Sequence[str], query: str) -> AsyncGenerator[bytes]:
        """The lines that have `query`, of all files in order of time, as they are in the files.
        Each has the name of its file in front where there are several.
        """
        needle = query.encode().lower()
        async with AsyncExitStack() as opened:
            heads: list[tuple[str, int, bytes]] = []
            streams = []
            for number, name in enumerate(names):
                lines = self.lines(name, most=1 << 62)
                streams.append(await opened.enter_async_context(aclosing(lines)))
                await _push(heads, streams[number], number, "")
            while heads:
                order, number, line = heapq.heappop(heads)
                if needle in line.lower():
                    yield (
                        (b"%s\t%s\n" % (names[number].encode(), line))
                        if len(names) > 1
                        else (line + b"\n")
                    )
                await _push(heads, streams[number], number, order)

    async def _read(self, name: str, span: str) -> tuple[bytes, int, int]:
        """Bytes of a range, its start, and the size of the file; nothing behind the end."""
        headers = {"Range": f"bytes={span}"}
        try:
            answer = await self.visit.api.raw("GET", self.path(name), headers=headers)
        except LadingError as error:
            if error.status != _NOTHING_MORE:
                raise
            return b"", 0, 0
        match = _RANGE.fullmatch(answer.headers.get("content-range", ""))
        if match is None:
            return answer.body, 0, len(answer.body)
        return answer.body, int(match[1]), int(match[2])


async def _push(
    heads: list[tuple[str, int, bytes]],
    stream: AsyncGenerator[tuple[int, bytes]],
    number: int,
    before: str,
) -> None:
    """Put the next line of a file among the first lines of all."""
    async for at, line in stream:
        order = parse_line(line[:64], at, source="", before=before).order
        heapq.heappush(heads, (order, number, line))
        return


async def _bounded(chunks: AsyncIterator[bytes], most: int) -> AsyncGenerator[bytes]:
    left = most
    async for piece in chunks:
        yield piece[:left]
        left -= len(piece)
        if left <= 0:
            return
