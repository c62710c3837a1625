"""A part of an open file as the body of a request, read while it is sent, or sent by the kernel
(sendfile).
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from lading.core.errors import Invalid

_SENT = 1 << 18


@dataclass(frozen=True, slots=True)
class FilePart:
    """`length` bytes from `start` of the file behind a descriptor, which stays open meanwhile.

    Iterated it gives them in pieces, each of its own memory; raises Invalid when the file is
    shorter than that.
    """

    descriptor: int
    start: int
    length: int

    async def __aiter__(self) -> AsyncGenerator[bytes | bytearray]:
        done = 0
        while done < self.length:
            wanted, at = min(_SENT, self.length - done), self.start + done
            # It has just been hashed or written, so it is in memory nearly always, and a thread
            # would take longer.
            part = _read_at_once(self.descriptor, wanted, at)
            part = part or await asyncio.to_thread(os.pread, self.descriptor, wanted, at)
            if not part:
                raise shorter(at)
            done += len(part)
            yield part


class Holes:
    """Where an open file has no data on disk, so that zeros are read: asked for from its beginning
    to its end.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._data = 0
        """Where the next data begins, as far as it is known."""

    def cover(self, start: int, length: int) -> bool:
        """Whether all of a part is in a hole. Moves the position of the file."""
        if start >= self._data:
            try:
                self._data = os.lseek(self._descriptor, start, os.SEEK_DATA)
            except OSError as error:
                # No data up to the end of the file; or a file system that cannot say.
                self._data = (
                    os.fstat(self._descriptor).st_size if error.errno == errno.ENXIO else start
                )
        return start + length <= self._data


def shorter(length: int) -> Invalid:
    """The error for a file that became shorter."""
    return Invalid(f"the file has become shorter while it was read: {length} bytes are left")


def _read_at_once(descriptor: int, size: int, at: int) -> bytes | bytearray:
    """Bytes that can be read without waiting for the disk; empty if none."""
    buffer = bytearray(size)
    try:
        count = os.preadv(descriptor, [buffer], at, os.RWF_NOWAIT)
    except OSError:
        # Not in memory, or a file system that cannot say.
        return b""
    return buffer if count == size else buffer[:count]
