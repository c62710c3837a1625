"""System calls that older kernels lack."""

from __future__ import annotations

import ctypes
import os
import struct
from errno import ENOSYS

_CLOSE_RANGE = 436
# Of prctl(2) and seccomp(2).
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2
_REFUSE, _ALLOW = 0x00050000 | ENOSYS, 0x7FFF0000
# Load the number of the call; compare it; return.
_PROGRAM = b"".join(
    struct.pack("=HBBI", *instruction)
    for instruction in (
        (0x20, 0, 0, 0),
        (0x15, 0, 1, _CLOSE_RANGE),
        (0x06, 0, 0, _REFUSE),
        (0x06, 0, 0, _ALLOW),
    )
)


def refuse_close_range() -> None:
    """From now on this process has no close_range(2), as before Linux 5.9. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    program = ctypes.create_string_buffer(_PROGRAM, len(_PROGRAM))
    filtering = struct.pack("@HP", len(_PROGRAM) // 8, ctypes.addressof(program))
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_SET_SECCOMP, _FILTER, filtering):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
