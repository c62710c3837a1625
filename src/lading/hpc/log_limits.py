"""Keeping the files with the code's output within bounds while the code goes on writing to them.

The code writes to the files itself, so that it does not notice when the daemon is started again.
The oldest part of a file that has grown too long is given back to the file system as a hole:
positions stay what they were.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

# Bytes of output that are kept: 1 GiB.
LIMIT = 1 << 30
# Flags of fallocate(2): give the blocks of a range back, with the size unchanged.
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
# Bytes; a multiple of it is given back.
_BLOCK = 1 << 20


def trim(path: Path, *, limit: int = LIMIT) -> int:
    """Give back all but the last `limit` bytes (whole MiB); how many bytes were given back in all.
    Raises OSError.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return 0
    surplus = (size - limit) // _BLOCK * _BLOCK
    if surplus <= 0:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if libc.fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, 0, surplus) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(descriptor)
    return surplus
