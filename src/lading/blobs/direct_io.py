"""Direct I/O (O_DIRECT) for large blocks, past the kernel's page cache.

Caching a block that is read once costs more than sending it and evicts frequently read data. The
first read of a block therefore bypasses the page cache where the file system supports this. The
second read goes through the cache, so later reads find the block there. A block that is in the
cache already is read from the cache.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from lading.core.lru import LruMap

LARGE: Final = 4 << 20
"""Least size of a block for direct I/O."""
# O_DIRECT needs offsets and lengths in multiples of the logical block size, which is at most a
# page.
_PAGE: Final = 4096
# Bytes that are read while the previous piece is hashed.
_PIECE: Final = 4 << 20
# Blocks whose last request is remembered.
_REMEMBERED: Final = 4096


class ReadBefore:
    """The large blocks that were requested last."""

    def __init__(self) -> None:
        self._hashes = LruMap[str, None](_REMEMBERED)

    def add(self, hash: str) -> bool:
        """Note a request for a block; return whether the block was requested recently."""
        was_there = hash in self._hashes
        self._hashes.put(hash, None)
        return was_there


class Bypass:
    """A file read with direct I/O, except for an incomplete page at its end."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, also when direct I/O is not supported."""
        self._direct = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        self._plain = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._plain).st_size

    def __del__(self) -> None:
        # Not earlier: a cancelled reader may have left a thread that still reads.
        if hasattr(self, "_direct"):
            os.close(self._direct)
        if hasattr(self, "_plain"):
            os.close(self._plain)

    def is_cached(self) -> bool:
        """Whether the page cache seems to have the file, checked for a few pages."""
        # Three pages: first, middle, last. RWF_NOWAIT fails for a page that is not cached.
        page = bytearray(1)
        with suppress(OSError):
            return all(
                os.preadv(self._plain, [page], at, os.RWF_NOWAIT)
                for at in (0, self.size // 2, max(self.size - 1, 0))
            )
        return False

    def read(self, view: memoryview, start: int) -> int:
        """Fill `view` from the file at `start`, a multiple of a page; return the bytes read. Raises
        OSError.
        """
        done, whole = 0, len(view) // _PAGE * _PAGE
        try:
            while done < whole and (
                count := os.preadv(self._direct, [view[done:whole]], start + done)
            ):
                # A short read: the file system may have reached the end or a page that it cannot
                # read directly.
                done += count
                if done % _PAGE:
                    return done
        except OSError as error:
            # The memory is not aligned for direct I/O.
            if error.errno != errno.EINVAL:
                raise
        while done < len(view) and (count := os.preadv(self._plain, [view[done:]], start + done)):
            done += count
        return done


async def read_past_cache(
    file: Bypass, view: memoryview, run: Callable[..., Awaitable[Any]]
) -> str:
    """Fill `view` from a file and return the MD5 of the read bytes; reading and hashing overlap.

    `run` runs a function in a thread. Raises the errors of `run`.
    """
    digest, hashed, start = hashlib.md5(usedforsecurity=False), memoryview(b""), 0
    while start < len(view) or hashed:
        piece = view[start : start + _PIECE]
        count, _ = await asyncio.gather(run(file.read, piece, start), run(digest.update, hashed))
        hashed, start = piece[:count], start + len(piece) if count == len(piece) else len(view)
    return digest.hexdigest()
