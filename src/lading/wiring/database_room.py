"""Room on the disk for the database of `lading up`.

Disk blocks are preallocated for the database (`keep_room`): a container or another program may fill
the disk, and the end of that container must still be recorded. The blocks come after the end of the
database and of its log, where the file system supports this (ext4, xfs, btrfs, tmpfs). No other
program gets them, the size of the files does not change, and SQLite grows into them. A process that
does not use the database must do this: closing a file releases all locks of the process on the
file.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
from pathlib import Path
from typing import Final

from lading.client.caches.disk_space import read_disk
from lading.core.containers import disk_space
from lading.core.containers.disk_space import Amount

# The write-ahead log and its shared memory grow beside the database, so they need space too.
_SUFFIXES: Final = ("", "-wal", "-shm")
# Seconds. A container was measured to write a megabyte between two checks, so they are this close.
_PERIOD: Final = 1.0
# Share of the reserve that is preallocated for each file of the database.
_PART: Final = 16
# The log of the database grows by about a megabyte in a second of steady writing.
_LEAST, _MOST = 8 << 20, 64 << 20
# FALLOC_FL_KEEP_SIZE of linux/falloc.h: allocate blocks beyond the end, do not change the size.
_KEEP_SIZE: Final = 1
# Bytes of a unit of `st_blocks` (stat(2)), on every file system.
_BLOCK: Final = 512
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


async def keep_room(database: Path, reserve: Amount, *, period: float = _PERIOD) -> None:
    """Preallocate space periodically, as the database grows, from the configured `reserve`."""
    while True:
        await asyncio.to_thread(set_aside, database, reserve)
        await asyncio.sleep(period)


def set_aside(database: Path, reserve: Amount) -> None:
    """Preallocate a sixteenth of the reserve, 8 MiB to 64 MiB, for each existing file of the
    database.

    Does nothing where the file system does not support it or is full.
    """
    for suffix in _SUFFIXES:
        # A reserve is not required; without room there is none.
        with contextlib.suppress(OSError):
            disk_reserve = disk_space.reserve(read_disk(database.parent).total, reserve)
            _extend(
                Path(f"{database}{suffix}"), min(_MOST, max(_LEAST, disk_reserve.size // _PART))
            )


def _extend(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        # Half of the space is still there: nothing to do. SQLite uses the blocks from the front.
        if found.st_blocks * _BLOCK >= found.st_size + size // 2:
            return
        # ENOSPC or EOPNOTSUPP: the caller ignores it and tries again in the next period.
        if _libc.fallocate(descriptor, _KEEP_SIZE, found.st_size, size):
            raise OSError(ctypes.get_errno(), "no room can be set aside", str(path))
    finally:
        os.close(descriptor)
