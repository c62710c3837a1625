"""Files of blocks: reads past the page cache (O_DIRECT), and writes while a block arrives.

Caching a block that is read once costs more than sending it and evicts frequently read data. The
first read of a block therefore bypasses the page cache where the file system supports this. The
second read goes through the cache, so later reads find the block there. A block that is in the
cache already is read from the cache.

A large block is written with direct I/O too, since the copy into the page cache and the write-back
take most of the CPU time. Where that is not supported write-back starts at once, so that the final
sync has little left to do.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from lading.core.bounded_memory import LruMap

LARGE: Final = 4 << 20
"""Least size of a block for direct I/O."""
# O_DIRECT needs offsets and lengths in multiples of the logical block size, which is at most a
# page.
_PAGE: Final = 4096
# Bytes that are read while the previous piece is hashed.
_PIECE: Final = 4 << 20
# Blocks whose last request is remembered.
_REMEMBERED: Final = 4096
_Answer = TypeVar("_Answer")
# Bytes after which write-back is started.
_WRITE_OUT: Final = 8 << 20
# Least size of a block for direct I/O.

# SYNC_FILE_RANGE_WRITE of linux/fs.h: start the write, do not wait.
_SYNC_FILE_RANGE_WRITE: Final = 2


class ReadBefore:
    """The large blocks that were requested last."""

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self._hashes = LruMap[str, None](limit)

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


class DraftVolume(Protocol):
    """The part of a volume that a draft uses."""

    async def run(self, work: Callable[..., _Answer], *arguments: object) -> _Answer:
        """Run a function in a thread."""

    def put_in_place(self, aside: Path, hash: str) -> None:
        """Rename a synced file to its block, durably."""


class FileDraft:
    """A block that is written while its bytes arrive: a temporary file in `folder`, locked while
    its writer is alive.
    """

    def __init__(self, disk: DraftVolume, folder: Path, *, size: int = 0) -> None:
        """`size`: size of the block, if known."""
        self._disk = disk
        self._file, name = tempfile.mkstemp(dir=folder)
        self._path = Path(name)
        self._size = self._begun = 0
        # The lock shows other processes that the writer is alive (`directory._remove_leftovers`).
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._direct = size >= LARGE and _bypass_cache(self._file, True)

    async def write(self, piece: memoryview) -> None:
        """Add the next bytes. Raises Full, Unavailable."""
        await self._disk.run(self.append, piece)

    async def commit(self, hash: str) -> None:
        """Store the written bytes as the block, durably. Raises Full, Unavailable."""
        await self._disk.run(self.finish, hash)

    async def discard(self) -> None:
        """Remove the file, also after a failure. Never raises."""
        self.remove()

    def append(self, piece: memoryview) -> None:
        """Add bytes; runs in a thread."""
        while piece:
            count = self._write(piece)
            piece = piece[count:]
            self._size += count
        if not self._direct and self._size - self._begun >= _WRITE_OUT:
            _begin_write_out(self._file, self._begun, self._size - self._begun)
            self._begun = self._size

    def _write(self, piece: memoryview) -> int:
        if self._direct:
            whole = len(piece) // _PAGE * _PAGE
            try:
                if whole:
                    return os.write(self._file, piece[:whole])
            except OSError as error:
                # The memory is not aligned, or the disk does not support direct I/O.
                if error.errno != errno.EINVAL:
                    raise
            # The rest is not a whole page; earlier pages are on the disk already.
            self._direct, self._begun = not _bypass_cache(self._file, False), self._size
        return os.write(self._file, piece)

    def finish(self, hash: str) -> None:
        """Finish the block; runs in a thread."""
        # fdatasync: the times of the file are not needed.
        os.fdatasync(self._file)
        self._disk.put_in_place(self._path, hash)
        self._close()

    def finish_as(self, target: Path) -> None:
        """Rename the synced file to `target`; runs in a thread."""
        os.fdatasync(self._file)
        self._path.rename(target)
        self._close()

    def remove(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            # After `finish` the descriptor is -1, and the file is the block.
            if self._file >= 0:
                self._path.unlink()
        self._close()

    def _close(self) -> None:
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            os.close(descriptor)


def _bypass_cache(descriptor: int, is_direct: bool) -> bool:
    """Switch direct I/O on or off. Whether the file system can do so."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(
            descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if is_direct else flags & ~os.O_DIRECT
        )
    except OSError:
        # The file system does not support it (EINVAL).
        return False
    return True


def _begin_write_out(descriptor: int, start: int, size: int) -> None:
    # Advice only: without it the final sync writes everything.
    with suppress(AttributeError):
        sync = ctypes.CDLL(None).sync_file_range
        sync(descriptor, ctypes.c_int64(start), ctypes.c_int64(size), _SYNC_FILE_RANGE_WRITE)
