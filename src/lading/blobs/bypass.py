"""Large blocks that are read past the kernel's cache.

A block that is asked for once would cost more to bring into that cache, and out of it again, than to send, and push out
what is asked for often. So the first reading goes past it where the disk can do that, and leaves it as it is; who asks
again finds it brought into the cache, as those who follow will. What is there already is read from there.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

LARGE: Final = 4 << 20
"""Bytes from which on that is worth it."""
_PAGE: Final = 4096
_PIECE: Final = 4 << 20
_REMEMBERED: Final = 4096


class ReadBefore:
    """The large blocks that were asked for last."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[str, None] = OrderedDict()

    def add(self, hash: str) -> bool:
        """Whether a block, which is asked for now, was asked for not long ago."""
        was_there = hash in self._hashes
        self._hashes[hash] = None
        self._hashes.move_to_end(hash)
        if len(self._hashes) > _REMEMBERED:
            self._hashes.popitem(last=False)
        return was_there


class Bypass:
    """A file that is read past the cache, all but what is not a whole page at its end."""

    def __init__(self, path: Path) -> None:
        """Raises OSError: also when that cannot be had."""
        self._direct = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        self._plain = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._plain).st_size

    def __del__(self) -> None:
        # Not before: a reader who gave up may have left a thread that still reads.
        if hasattr(self, "_direct"):
            os.close(self._direct)
        if hasattr(self, "_plain"):
            os.close(self._plain)

    def is_cached(self) -> bool:
        """Whether the kernel seems to have it in its cache, looked at in a few places."""
        page = bytearray(1)
        with suppress(OSError):
            return all(
                os.preadv(self._plain, [page], at, os.RWF_NOWAIT) for at in (0, self.size // 2, max(self.size - 1, 0))
            )
        return False

    def read(self, view: memoryview, start: int) -> int:
        """Fill `view` from the file at `start`, a multiple of a page; the bytes that were there. Raises OSError."""
        done, whole = 0, len(view) // _PAGE * _PAGE
        try:
            while done < whole and (count := os.preadv(self._direct, [view[done:whole]], start + done)):
                done += count
                if done % _PAGE:
                    return done
        except OSError as error:
            # Not into this place in memory.
            if error.errno != errno.EINVAL:
                raise
        while done < len(view) and (count := os.preadv(self._plain, [view[done:]], start + done)):
            done += count
        return done


async def read_past_cache(file: Bypass, view: memoryview, run: Callable[..., Awaitable[Any]]) -> str:
    """Fill `view` from a file, as far as it goes; the MD5 of what came. The next piece is read while one is hashed.

    `run` does work in a thread. Raises what that raises.
    """
    digest, hashed, start = hashlib.md5(usedforsecurity=False), memoryview(b""), 0
    while start < len(view) or hashed:
        piece = view[start : start + _PIECE]
        count, _ = await asyncio.gather(run(file.read, piece, start), run(digest.update, hashed))
        hashed, start = piece[:count], start + len(piece) if count == len(piece) else len(view)
    return digest.hexdigest()
