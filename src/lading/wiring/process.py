"""What every process of `lading up` does at its start: end with its parent, and say when it is ready."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Have the kernel send TERM to this process when `parent` dies; leave at once if it already has.

    Raises SystemExit when the parent is gone.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(0)


def report_ready(descriptor: int) -> None:
    """Tell the parent, through the pipe it passed, that this process serves."""
    os.write(descriptor, b"ready\n")
    os.close(descriptor)
