"""Terminals that are closed while a command that ignores SIGHUP (`nohup`, `trap '' HUP`) uses them.

The kernel answers each later call with the error EIO, which a failing disk has too. So the standard
streams are asked.
"""

from __future__ import annotations

import errno
import os
import sys
import termios
from collections.abc import Sequence

_STREAMS = (0, 1, 2)


def is_hangup(error: BaseException, streams: Sequence[int] = _STREAMS) -> bool:
    """Whether all that failed are calls to a terminal of ours that has been closed."""
    return _is_input_output(error) and any(map(_is_closed, streams))


def silence() -> None:
    """Send what is still to be written to /dev/null: no one can read it."""
    aside = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in filter(_is_closed, _STREAMS):
        os.dup2(aside, number)
    os.close(aside)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def _is_input_output(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_input_output, error.exceptions))
    return isinstance(error, OSError) and error.errno == errno.EIO


def _is_closed(number: int) -> bool:
    try:
        termios.tcgetattr(number)
    except termios.error as error:
        # Of anything but a terminal this is ENOTTY.
        return bool(error.args[0] == errno.EIO)
    return False
