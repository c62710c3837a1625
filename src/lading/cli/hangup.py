"""Streams that nobody reads any more: a terminal that is closed while a command that ignores SIGHUP
(`nohup`, `trap '' HUP`) uses it, and a pipe whose reader has ended.

For a terminal the kernel answers each later call with the error EIO, which a failing disk has too.
So the standard streams are asked.
"""

from __future__ import annotations

import errno
import os
import select
import sys
import termios
from collections.abc import Generator, Sequence
from contextlib import contextmanager

_STREAMS = (0, 1, 2)


def is_hangup(error: BaseException, streams: Sequence[int] = _STREAMS) -> bool:
    """Whether all that failed are calls to a terminal of ours that has been closed."""
    return _consists_of(error, errno.EIO) and any(map(_is_closed, streams))


def is_broken_pipe(error: BaseException) -> bool:
    """Whether all that failed is output to pipes whose readers have ended."""
    return _consists_of(error, errno.EPIPE)


def silence() -> None:
    """Send what is still to be written to /dev/null: no one can read it."""
    aside = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in _STREAMS:
        if _is_closed(number) or _has_no_reader(number):
            os.dup2(aside, number)
    os.close(aside)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


@contextmanager
def unread() -> Generator[None]:
    """Output that does not decide how the command ends: where its reader has left, it is dropped,
    and so is all that follows.
    """
    try:
        yield
    except OSError as error:
        if not (isinstance(error, BrokenPipeError) or is_hangup(error)):
            raise
        silence()


def _consists_of(error: BaseException, number: int) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_consists_of(one, number) for one in error.exceptions)
    return isinstance(error, OSError) and error.errno == number


def _is_closed(number: int) -> bool:
    try:
        termios.tcgetattr(number)
    except termios.error as error:
        # Of anything but a terminal this is ENOTTY.
        return bool(error.args[0] == errno.EIO)
    return False


def _has_no_reader(number: int) -> bool:
    """Whether a stream is a pipe whose other end was closed."""
    asked = select.poll()
    asked.register(number, 0)
    return any(found & select.POLLERR for _, found in asked.poll(0))
