"""A partial block: a file that is written while the bytes of its block arrive.

A large block is written with direct I/O where the file system supports it, since the copy into the
page cache and the write-back take most of the CPU time. Otherwise write-back starts at once, so
that the final sync has little left to do.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, TypeVar

_Answer = TypeVar("_Answer")
# Bytes after which write-back is started.
_WRITE_OUT: Final = 8 << 20
# Least size of a block for direct I/O.
_LARGE: Final = 4 << 20
_PAGE: Final = 4096
# SYNC_FILE_RANGE_WRITE of linux/fs.h: start the write, do not wait.
_SYNC_FILE_RANGE_WRITE: Final = 2


class Disk(Protocol):
    """The part of a volume that a draft uses."""

    async def run(self, work: Callable[..., _Answer], *arguments: object) -> _Answer:
        """Run a function in a thread."""
        ...

    def put_in_place(self, aside: Path, hash: str) -> None:
        """Rename a synced file to its block, durably."""


class FileDraft:
    """A temporary file in `folder`, locked while its writer lives."""

    def __init__(self, disk: Disk, folder: Path, *, size: int = 0) -> None:
        """`size`: size of the block, if known."""
        self._disk = disk
        self._file, name = tempfile.mkstemp(dir=folder)
        self._path = Path(name)
        self._size = self._begun = 0
        # The lock shows other processes that the writer lives (`directory._remove_leftovers`).
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._direct = size >= _LARGE and _bypass_cache(self._file, True)

    async def write(self, piece: memoryview) -> None:
        """Add bytes; see Draft."""
        await self._disk.run(self.append, piece)

    async def commit(self, hash: str) -> None:
        """Finish the block; see Draft."""
        await self._disk.run(self.finish, hash)

    async def discard(self) -> None:
        """Remove the file; see Draft."""
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


def _bypass_cache(descriptor: int, wanted: bool) -> bool:
    """Switch direct I/O on or off; return whether that succeeded."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(
            descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if wanted else flags & ~os.O_DIRECT
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
