"""Calls of the kernel that only some systems have, each with a way for the others.

The client runs on Linux, macOS and Windows; containers, servers and mounts need Linux and call it
directly.
Which system has a name is said by "Availability" in Python's documentation of `os` and `fcntl`.
"""

from __future__ import annotations

import os
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Final

try:
    import resource
except ModuleNotFoundError:
    # Windows has no limits of processes.
    CAN_LIMIT_FILES = False
else:
    CAN_LIMIT_FILES = hasattr(resource, "prlimit")
    """Whether the kernel bounds the size of files that another process writes."""

IS_WINDOWS: Final = os.name == "nt"
HAS_FOLDER_DESCRIPTORS: Final = os.open in os.supports_dir_fd
"""Whether calls take the descriptor of a directory; Windows has no such calls."""
NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0)
"""Flag that opens no symbolic link (open(2)); 0 where there is none, as in the next four."""
ONLY_DIRECTORY: Final[int] = getattr(os, "O_DIRECTORY", 0)
"""Flag that opens a directory alone."""
NO_INHERIT: Final[int] = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0)
"""Flag that keeps a descriptor from the programs that this process starts."""
NO_WAIT: Final[int] = getattr(os, "O_NONBLOCK", 0)
"""Flag that opens a pipe without a wait for its other end."""
AS_BYTES: Final[int] = getattr(os, "O_BINARY", 0)
"""Flag that keeps line ends as they are, which Windows else changes."""
OPEN_NODE: Final[int] = getattr(os, "O_PATH", 0)
"""Flag that opens an entry without permission on it (open(2)); 0 where there is none."""


class FileAdvice(StrEnum):
    """Announced use of a part of a file (posix_fadvise(2))."""

    NORMAL = "POSIX_FADV_NORMAL"
    SEQUENTIAL = "POSIX_FADV_SEQUENTIAL"
    WILL_NEED = "POSIX_FADV_WILLNEED"


def advise(descriptor: int, advice: FileAdvice, *, start: int = 0, length: int = 0) -> None:
    """Announce how `length` bytes from `start` on will be read; 0 bytes are all. Without effect on
    systems that take no advice. Raises OSError.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, start, length, getattr(os, advice))


def read_cached(descriptor: int, buffer: bytearray, start: int) -> int:
    """Read bytes of a file from `start` on that are in memory; their number, which is 0 where the
    disk would have to be waited for, or the system cannot tell.
    """
    if not hasattr(os, "RWF_NOWAIT"):
        return 0
    try:
        return os.preadv(descriptor, [buffer], start, os.RWF_NOWAIT)
    except OSError:
        # EAGAIN: not in memory; EOPNOTSUPP: the file system does not support RWF_NOWAIT.
        return 0


def open_nameless(name: str) -> int:
    """A descriptor of a new file that is freed with its last descriptor: in memory where the system
    has such files, else without a name on the disk. `name` is shown by tools. Raises OSError.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    descriptor, path = tempfile.mkstemp(prefix=f"lading-{name}-")
    Path(path).unlink()
    return descriptor


def set_mode(name: str, mode: int, *, folder: int) -> None:
    """Set the mode of an entry of an open directory that this process may not open; no symbolic
    link is followed. Raises OSError.
    """
    if not OPEN_NODE:
        os.chmod(name, mode, dir_fd=folder, follow_symlinks=False)
        return
    # Linux sets the mode of a path only; that of an open entry is in /proc.
    node = os.open(name, OPEN_NODE | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        Path(f"/proc/self/fd/{node}").chmod(mode)
    finally:
        os.close(node)


def limit_files(process: int, size: int) -> None:
    """Let a process write no file beyond `size` bytes; it gets SIGXFSZ there. Only where
    CAN_LIMIT_FILES is true. Raises OSError.
    """
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size, size))
