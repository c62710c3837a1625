"""Streams that accept no more output: a terminal that is closed while a command that ignores SIGHUP
(`nohup`, `trap '' HUP`) uses it, a pipe whose reader has ended, and a file on a full disk.

For a terminal the kernel answers each later call with the error EIO, which a failing disk has too;
a full disk may be that of any other file. So the standard streams are asked.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lading.process import portable

_STREAMS = (0, 1, 2)
# A full disk, a quota of the file system, and the limit of a file's size.
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)


def is_hangup(error: BaseException, streams: Sequence[int] = _STREAMS) -> bool:
    """Whether each error is one of a terminal of this process that has been closed."""
    return _consists_of(error, errno.EIO) and any(map(portable.is_closed_terminal, streams))


def is_broken_pipe(error: BaseException) -> bool:
    """Whether each error is one of a pipe whose reader has ended."""
    return _consists_of(error, errno.EPIPE)


def is_full_disk(error: BaseException) -> bool:
    """Whether each error is one of a full disk, a full quota or the largest size of a file."""
    return any(_consists_of(error, number) for number in _FULL)


def full_stream(error: BaseException) -> str:
    """The standard stream that is a file on a full disk, if that is the fault; "" otherwise."""
    if not is_full_disk(error):
        return ""
    full = _full_streams()
    return "" if not full else "standard output" if 1 in full else "standard error"


def silence(*, is_full: bool = False) -> None:
    """Send what is still to be written to /dev/null: no one can read it. `is_full`: after an error
    of a full disk.
    """
    aside = os.open(os.devnull, os.O_RDWR | portable.NO_INHERIT)
    full = _full_streams() if is_full else frozenset()
    for number in _STREAMS:
        if number in full or portable.is_closed_terminal(number) or _has_no_reader(number):
            os.dup2(aside, number)
    os.close(aside)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


@contextmanager
def unread() -> Generator[None]:
    """Output that does not decide how the command ends: where its reader has left, it is dropped,
    and so is all that follows; messages for which a full disk has no room, too.
    """
    try:
        yield
    except OSError as error:
        is_full = full_stream(error) == "standard error"
        if not (is_full or isinstance(error, BrokenPipeError) or is_hangup(error)):
            raise
        silence(is_full=is_full)


def _consists_of(error: BaseException, number: int) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_consists_of(member, number) for member in error.exceptions)
    return isinstance(error, OSError) and error.errno == number


def _full_streams() -> frozenset[int]:
    """The numbers of standard streams with output that their full disk does not take."""
    full = set()
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        # Output that could not be written is still in the buffer of the stream, unless it was
        # larger than the buffer, or the stream has none (PYTHONUNBUFFERED): then the disk is asked.
        try:
            stream.flush()
            is_full = _has_no_room(number)
        except OSError as error:
            is_full = error.errno in _FULL
        if is_full:
            full.add(number)
    return frozenset(full)


def _has_no_room(number: int) -> bool:
    """Whether a stream is a file on a full disk."""
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode):
        return os.fstatvfs(number).f_bavail == 0
    # /dev/full is a device like /dev/null.
    is_device = stat.S_ISCHR(found.st_mode) and not os.isatty(number)
    return is_device and found.st_rdev != Path(os.devnull).stat().st_rdev


def _has_no_reader(number: int) -> bool:
    """Whether a stream is a pipe whose other end was closed."""
    if not hasattr(select, "poll"):
        return False
    asked = select.poll()
    asked.register(number, 0)
    return any(event & select.POLLERR for _, event in asked.poll(0))
