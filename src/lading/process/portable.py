"""Calls of the kernel that only some systems have, each with a way for the others.

The client runs on Linux, macOS and Windows; containers, servers and mounts need Linux and call it
directly.
Which system has a name is said by "Availability" in Python's documentation of `os` and `fcntl`.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import tempfile
import threading
from enum import StrEnum
from pathlib import Path
from typing import Any, Final


def _of_unix(name: str) -> Any:
    """A module of Python, or None on Windows, which lacks it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


fcntl, resource, termios = map(_of_unix, ("fcntl", "resource", "termios"))
CAN_LIMIT_FILES: Final = hasattr(resource, "prlimit")
"""Whether the kernel bounds the size of files that another process writes."""
IS_WINDOWS: Final = sys.platform == "win32"
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
NO_TERMINAL: Final[int] = getattr(os, "O_NOCTTY", 0)
"""Flag of open: the opened terminal does not become the terminal of the process."""
_LOCKED_BYTE: Final = 1 << 40
# Windows reads and writes at the position of the file alone.
_position: Final = threading.Lock()
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
    # Linux sets the mode of a path only; the path of an open entry is in /proc.
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


def lock_file(descriptor: int, *, is_shared: bool = False) -> None:
    """Lock an open file until it is closed, as flock(2) does; locks of Windows are never shared.
    Raises OSError at once if another process has it.
    """
    if fcntl is not None:
        kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return
    import msvcrt

    # A byte beyond any content: a locked one cannot be read by others.
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)


def read_at(descriptor: int, size: int, start: int) -> bytes:
    """At most `size` bytes of a file from `start` on, for several threads at a time. Raises
    OSError.
    """
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, start)
    with _position:
        os.lseek(descriptor, start, os.SEEK_SET)
        return os.read(descriptor, size)


def read_into(descriptor: int, buffer: memoryview, start: int) -> int:
    """Read bytes of a file from `start` on into a buffer; their number. Raises OSError."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], start)
    data = read_at(descriptor, len(buffer), start)
    buffer[: len(data)] = data
    return len(data)


def write_at(descriptor: int, data: memoryview, start: int) -> int:
    """Write bytes to a file at `start`; the number that was written. Raises OSError."""
    if hasattr(os, "pwrite"):
        return os.pwrite(descriptor, data, start)
    with _position:
        os.lseek(descriptor, start, os.SEEK_SET)
        return os.write(descriptor, data)


def waiting_bytes(descriptor: int) -> int:
    """Number of bytes that wait in a pipe for its reader. The number is 0 on systems that do not
    report it. Raises OSError.
    """
    if fcntl is None or termios is None:
        return 0
    size = bytearray(4)
    fcntl.ioctl(descriptor, termios.FIONREAD, size)
    return int.from_bytes(size, sys.byteorder)


def is_closed_terminal(descriptor: int) -> bool:
    """Whether a descriptor is of a terminal that has been closed."""
    if termios is None:
        return False
    try:
        termios.tcgetattr(descriptor)
    except termios.error as error:
        # Of anything but a terminal this is ENOTTY.
        return bool(error.args[0] == errno.EIO)
    return False


def is_mine(owner: int) -> bool:
    """Whether a file of this owner is one of this user or of the administrator. Windows names no
    owners by number: there the directory of the user stands for that.
    """
    return not hasattr(os, "geteuid") or owner in (0, os.geteuid())
