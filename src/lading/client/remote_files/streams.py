"""Files of the site as streams of Python's `io`: any part of one is read, a new one is written."""

from __future__ import annotations

import io
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from lading.client.remote_files.block_reading import RangeReader
from lading.client.remote_files.tree import FileWriter, RemoteFiles
from lading.core.errors import Invalid

_Answer = TypeVar("_Answer")
_MODES = frozenset({"r", "w", "x", "a"})
_BUFFER = 1 << 20
"""Bytes that are read or written at a time."""


class FileSite(Protocol):
    """The part of a `client.site.Site` that its files use."""

    @property
    def files(self) -> RemoteFiles:
        """Its files."""

    def call(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Run a coroutine in the loop of the site, and wait for its result."""


class StoredReader(io.RawIOBase):
    """A file that is read. Raises the errors of `BlockClient.get`."""

    def __init__(self, site: FileSite, reader: RangeReader) -> None:
        self._site, self._reader = site, reader
        self._position = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an offset from the beginning, the position or the end; the new position."""
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._reader.size}
        if whence not in bases or bases[whence] + offset < 0:
            raise ValueError(f"{offset} from {whence}: no position of a file")
        self._position = bases[whence] + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer; the number of bytes read."""
        view = memoryview(buffer).cast("B")
        end = self._position + len(view)
        piece = self._site.call(self._reader.read(self._position, end))
        view[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)


class StoredWriter(io.RawIOBase):
    """A file that is written; it is at its path after `close`. `discard` drops it."""

    def __init__(self, site: FileSite, writer: FileWriter) -> None:
        self._site, self._writer = site, writer
        self._is_dropped = False

    def writable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The number of bytes of the file so far."""
        return self._writer.size

    def write(self, data: Any, /) -> int:
        """Add bytes at the end; their number."""
        self._site.call(self._writer.write(data))
        return memoryview(data).nbytes

    def discard(self) -> None:
        """Drop the file; what was at its path stays."""
        self._is_dropped = True
        self.close()

    def close(self) -> None:
        """Have the file at its path, durable at the return. Raises as `RemoteFiles.writer`."""
        if self.closed:
            return
        try:
            super().close()
            if not self._is_dropped:
                self._site.call(self._writer.commit())
        finally:
            self._site.call(self._writer.abort())


def open_stream(site: FileSite, address: str, mode: str) -> StoredReader | StoredWriter:
    """A binary stream of a file; `mode` is `r`, `w`, `x` or `a`. Raises Invalid for another one,
    and the errors of `RemoteFiles.reader` and `writer`.
    """
    if mode not in _MODES:
        raise Invalid(f"{mode!r}: no mode of a file; write r, w, x or a, with t or b")
    if mode == "r":
        return StoredReader(site, site.call(site.files.reader(address)))
    writer = site.call(site.files.writer(address, appends=mode == "a", exclusive=mode == "x"))
    return StoredWriter(site, writer)


def buffered(stream: StoredReader | StoredWriter) -> io.BufferedReader | io.BufferedWriter:
    """The stream with a buffer."""
    if isinstance(stream, StoredReader):
        return io.BufferedReader(stream, _BUFFER)
    return io.BufferedWriter(stream, _BUFFER)
