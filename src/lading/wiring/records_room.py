"""Room on the disk that belongs to the files of the SQLite database before they need it.

A container, or anybody else, may fill the disk to its last byte. The end of that container is still to be recorded: so
the file system is asked to set blocks aside behind the end of the database and of its log, where it can do that (ext4,
xfs, btrfs, tmpfs). Nobody else gets those, the files do not look larger, and SQLite grows into them.

This is done by a process that does not use the database: closing a file gives up all locks that a process has on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
from pathlib import Path
from typing import Final

from lading.client.diskspace import read_disk
from lading.core import diskroom
from lading.core.diskroom import Amount

_SUFFIXES: Final = ("", "-wal", "-shm")
_PERIOD: Final = 1.0
_PART: Final = 16
_LEAST, _MOST = 8 << 20, 64 << 20
"""The log of the database grows by about a megabyte in a second of steady writing."""
_KEEP_SIZE: Final = 1
"""FALLOC_FL_KEEP_SIZE of linux/falloc.h."""
_BLOCK: Final = 512
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


async def keep_room(database: Path, wanted: Amount) -> None:
    """Set room aside for the database again and again, as it grows. `wanted`: the reserve as it is configured."""
    while True:
        await asyncio.to_thread(set_aside, database, wanted)
        await asyncio.sleep(_PERIOD)


def set_aside(database: Path, wanted: Amount) -> None:
    """Set room aside for the files of the database that are there, a sixteenth of the reserve each, 8 MiB to 64 MiB.

    Where the file system cannot do that, or is full, nothing happens.
    """
    for suffix in _SUFFIXES:
        with contextlib.suppress(OSError):
            kept = diskroom.reserve(read_disk(database.parent).total, wanted)
            _extend(Path(f"{database}{suffix}"), min(_MOST, max(_LEAST, kept.size // _PART)))


def _extend(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_blocks * _BLOCK >= found.st_size + size // 2:
            return
        if _libc.fallocate(descriptor, _KEEP_SIZE, found.st_size, size):
            raise OSError(ctypes.get_errno(), "no room can be set aside", str(path))
    finally:
        os.close(descriptor)
