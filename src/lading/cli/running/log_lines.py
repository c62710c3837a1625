"""Lines of log files: merged by their timestamps, as JSON, or without timestamps.

Each line of a log file begins with a timestamp and a blank, which are removed; a line may come in
several pieces. Bytes are written as they are read: memory for a few pieces of each file is enough
for a log of any size.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from itertools import chain
from typing import BinaryIO, Protocol

import msgspec

from lading.cli.display import write_all

# A timestamp of RFC 3339 in UTC with nanoseconds, as supervisors write it before each line.
_STAMPED = re.compile(rb"\d{4}-\d\d-\d\dT[0-9:.]{18}Z ")
# Bytes. A longer line is written before its end is read, so that memory is bounded.
_LONGEST = 1 << 20
STAMP = len("2026-01-02T03:04:05.000000000Z ")


class Readable(Protocol):
    """A log file whose bytes come in pieces."""

    def read(self) -> AsyncGenerator[bytes]:
        """The bytes that were not read before."""
        ...


async def copy_log(log: Readable, out: BinaryIO) -> None:
    """Write all bytes of a log file to a stream."""
    async with aclosing(log.read()) as pieces:
        async for piece in pieces:
            write_all(out, piece)


async def write_json(texts: Mapping[str, Readable], out: BinaryIO) -> None:
    """Write one JSON object, indented: the text of each log file by its name. Bytes that are not
    UTF-8 are replaced.
    """
    write_all(out, b"{")
    for number, (name, log) in enumerate(texts.items()):
        write_all(out, b"%b\n  %b: " % (b"," if number else b"", msgspec.json.encode(name)))
        async with aclosing(log.read()) as pieces:
            await write_json_text(pieces, out)
    write_all(out, b"\n}\n" if texts else b"}\n")


async def write_json_text(pieces: AsyncIterator[bytes], out: BinaryIO) -> None:
    """Write a text that comes in pieces as one JSON string. Bytes that are not UTF-8 are
    replaced.
    """
    # Incremental: a character may be split between two pieces.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    write_all(out, b'"')
    async for piece in pieces:
        for start in range(0, len(piece), _LONGEST):
            write_all(
                out, msgspec.json.encode(decoder.decode(piece[start : start + _LONGEST]))[1:-1]
            )
    write_all(out, msgspec.json.encode(decoder.decode(b"", final=True))[1:-1] + b'"')


async def merged_log(logs: list[Readable]) -> AsyncGenerator[bytes]:
    """The lines of several log files in the order of their timestamps; each file keeps its own
    order.

    Lines with equal timestamps come in the order of the files. A line without a timestamp belongs
    to the line before it. A line is never interrupted by lines of other files; a last line without
    a line feed gets one.
    """
    async with AsyncExitStack() as opened:
        files = [_Lines(await opened.enter_async_context(aclosing(log.read()))) for log in logs]
        while True:
            for file in files:
                await file.fill()
            files = [file for file in files if not file.is_over]
            # A single file needs no merging: `remaining` below.
            if len(files) < 2:
                break
            # Up to the last timestamp of the file that was read least far, all lines of all files
            # are known.
            slowest = min(enumerate(files), key=_last_stamp)[0]
            is_cut = files[slowest].is_cut
            if taken := _take(files, slowest):
                yield taken
            if is_cut:
                async with aclosing(files[slowest].rest_of_line()) as pieces:
                    async for piece in pieces:
                        yield piece
        for file in files:
            async with aclosing(file.remaining()) as pieces:
                async for piece in pieces:
                    yield piece


class _Lines:
    """The lines of one log file, each with the timestamp for sorting."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._lines: list[tuple[bytes, bytes]] = []
        self._tail = b""
        self._stamp = b""
        self._has_ended = False

    @property
    def is_over(self) -> bool:
        """Whether all lines were taken."""
        return self._has_ended and not self._lines and not self._tail

    @property
    def is_cut(self) -> bool:
        """Whether the next line is too long to be held; a part of it was read."""
        return not self._lines and len(self._tail) > _LONGEST

    @property
    def last(self) -> bytes:
        """The timestamp up to which the file was read."""
        return self._lines[-1][0] if self._lines else self._key(self._tail)

    async def fill(self) -> None:
        """Read until there is a line, a part of a very long line, or the end."""
        while not self._lines and not self._has_ended and len(self._tail) <= _LONGEST:
            self._add(await anext(self._pieces, None))

    def take(self, limit: bytes, *, inclusive: bool) -> list[tuple[bytes, bytes]]:
        """Remove the first lines with a timestamp before `limit`; with `inclusive` also those equal
        to it.
        """
        count = 0
        for stamp, _ in self._lines:
            if stamp > limit or (stamp == limit and not inclusive):
                break
            count += 1
        taken, self._lines = self._lines[:count], self._lines[count:]
        return taken

    async def rest_of_line(self) -> AsyncGenerator[bytes]:
        """Remove a line that is too long to be held, as it is read."""
        self._stamp = self._key(self._tail)
        piece: bytes | None = self._tail
        self._tail = b""
        while piece is not None:
            line, end, rest = piece.partition(b"\n")
            yield line + end
            if end:
                self._add(rest)
                return
            piece = await anext(self._pieces, None)
        self._has_ended = True
        yield b"\n"

    async def remaining(self) -> AsyncGenerator[bytes]:
        """Remove the rest, unchanged."""
        begun = b"".join(line for _, line in self._lines) + self._tail
        if begun:
            yield begun
        ends = not begun or begun.endswith(b"\n")
        if not self._has_ended:
            async for piece in self._pieces:
                yield piece
                ends = piece.endswith(b"\n")
        if not ends:
            yield b"\n"

    def _add(self, piece: bytes | None) -> None:
        if piece is None:
            self._has_ended = True
            piece = b"\n" if self._tail else b""
        *whole, self._tail = (self._tail + piece).split(b"\n")
        for line in whole:
            self._stamp = self._key(line)
            self._lines.append((self._stamp, line + b"\n"))

    def _key(self, line: bytes) -> bytes:
        """The timestamp of a line; never before that of the previous line, so that the file keeps
        its order.
        """
        return max(self._stamp, line[: STAMP - 1]) if _STAMPED.match(line) else self._stamp


class Unstamper:
    """Removes the timestamps, wherever the bytes are split."""

    # Bytes of the present line's timestamp that are still to be removed.
    def __init__(self) -> None:
        self._skip = STAMP

    def feed(self, data: bytes) -> bytes:
        """The text of these bytes, without timestamps."""
        texts = []
        for line in _lines(data):
            text, self._skip = line[self._skip :], max(0, self._skip - len(line))
            texts.append(text)
            if line.endswith(b"\n"):
                self._skip = STAMP
        return b"".join(texts)


def _last_stamp(numbered: tuple[int, _Lines]) -> bytes:
    return numbered[1].last


def _take(files: Sequence[_Lines], slowest: int) -> bytes:
    """Remove the lines of all files up to the last known timestamp of one, in their order."""
    limit = files[slowest].last
    taken = [file.take(limit, inclusive=number <= slowest) for number, file in enumerate(files)]
    lines = sorted(chain.from_iterable(taken), key=lambda entry: entry[0])
    return b"".join(line for _, line in lines)


def _lines(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    lines = [line + b"\n" for line in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines
