"""Work inside the network namespace of another process."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lading.core.errors import LadingError

# Of linux/sched.h.
_CLONE_NEWNET = 0x40000000
_Answer = TypeVar("_Answer")
_libc = ctypes.CDLL(None, use_errno=True)


def open_namespace(pid: int) -> int:
    """A descriptor of the network namespace of a process. Raises OSError."""
    return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def is_own(descriptor: int) -> bool:
    """Whether this process is in the namespace."""
    theirs, ours = os.fstat(descriptor), Path("/proc/self/ns/net").stat()
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


def inside(descriptor: int, work: Callable[[], _Answer]) -> _Answer:
    """Do some work in the namespace; sockets that it makes stay there. Raises OSError, and
    LadingError of the work.

    The work runs in a thread that ends with it: setns(2) applies to the thread, which must not be
    used again.
    """
    answers: list[_Answer] = []
    faults: list[OSError | LadingError] = []

    def do() -> None:
        try:
            if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), "network namespace")
            answers.append(work())
        except (OSError, LadingError) as error:
            faults.append(error)

    thread = threading.Thread(target=do, name="network namespace")
    thread.start()
    thread.join()
    for fault in faults:
        raise fault
    return answers[0]
