"""A part of an open file as the body of a request: read as it is sent, or handed to the kernel to send by itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from lading.core.errors import Invalid

_SENT = 1 << 18


@dataclass(frozen=True, slots=True)
class FilePart:
    """`length` bytes from `start` of the file behind a descriptor, which stays open meanwhile.

    Iterated it gives them in pieces, each of its own memory; raises Invalid when the file is shorter than that.
    """

    descriptor: int
    start: int
    length: int

    async def __aiter__(self) -> AsyncGenerator[bytes | bytearray]:
        done = 0
        while done < self.length:
            wanted, at = min(_SENT, self.length - done), self.start + done
            # It has just been hashed or written, so it is in memory nearly always, and a thread would take longer.
            part = _read_at_once(self.descriptor, wanted, at)
            part = part or await asyncio.to_thread(os.pread, self.descriptor, wanted, at)
            if not part:
                raise shorter(at)
            done += len(part)
            yield part


def shorter(length: int) -> Invalid:
    """What is to be said of a file of which only that many bytes are left."""
    return Invalid(f"the file has become shorter while it was read: {length} bytes are left")


def _read_at_once(descriptor: int, size: int, at: int) -> bytes | bytearray:
    """What can be read without waiting for the disk; empty when nothing can."""
    buffer = bytearray(size)
    try:
        count = os.preadv(descriptor, [buffer], at, os.RWF_NOWAIT)
    except OSError:
        # Not in memory, or a file system that cannot say.
        return b""
    return buffer if count == size else buffer[:count]
