"""Parts of open files as bodies of requests, and ranges of files without data on disk."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncGenerator

import msgspec

from lading.core.errors import Invalid
from lading.process.portable import read_at, read_cached

# Bytes read and sent at a time.
_SENT = 1 << 18


class FilePart(msgspec.Struct, frozen=True):
    """`length` bytes from `start` of an open file; the descriptor must stay open.

    Iteration gives them in pieces, each in new memory; raises Invalid when the file is too short.
    """

    descriptor: int
    start: int
    length: int

    async def __aiter__(self) -> AsyncGenerator[bytes | bytearray]:
        done = 0
        while done < self.length:
            wanted, at = min(_SENT, self.length - done), self.start + done
            # The bytes were just hashed or written, so they are nearly always in memory, and a
            # thread would take longer than the read.
            part = _read_at_once(self.descriptor, wanted, at)
            part = part or await asyncio.to_thread(read_at, self.descriptor, wanted, at)
            if not part:
                raise shorter(at)
            done += len(part)
            yield part


class Holes:
    """Ranges of an open file without data on disk, which read as zeros; queried in ascending
    order.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._data = 0
        """Offset of the next data, as far as known."""

    def cover(self, start: int, length: int) -> bool:
        """Whether a part is completely in a hole. Moves the position of the file."""
        if start >= self._data:
            try:
                self._data = os.lseek(self._descriptor, start, os.SEEK_DATA)
            except OSError as error:
                # ENXIO: no data up to the end of the file. Other errors: the file system does not
                # support SEEK_DATA, so all is data.
                self._data = (
                    os.fstat(self._descriptor).st_size if error.errno == errno.ENXIO else start
                )
        return start + length <= self._data


def shorter(length: int) -> Invalid:
    """The error for a file that became shorter while it was read."""
    return Invalid(f"the file has become shorter while it was read: {length} bytes are left")


def _read_at_once(descriptor: int, size: int, at: int) -> bytes | bytearray:
    """Bytes that are in memory and can be read without waiting for the disk; empty if none."""
    buffer = bytearray(size)
    count = read_cached(descriptor, buffer, at)
    return buffer if count == size else buffer[:count]
