"""What the processes of `lading up` owe each other: a child ends with its parent, says when it serves or why not."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

READY = b"ready\n"
_PR_SET_PDEATHSIG = 1
_GROUP = Path("/proc/self/autogroup")
_SETTING_ATTRIBUTES = {"x86_64": 314, "aarch64": 274}
"""The numbers of sched_setattr(2), for which most libraries have no function."""
_ATTRIBUTES = "=IIQiIQQQ"
"""Its structure: size, policy, flags, nice, priority, runtime (the turn, in nanoseconds), deadline, period."""
_TURN = 1_300_000


def end_with_parent(parent: int) -> None:
    """Have the kernel send TERM to this process when `parent` dies; leave at once if it already has.

    Raises SystemExit when the parent is gone.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(0)


def come_before(priority: int) -> None:
    """Come before the other processes of this machine: `priority` from -20, first of all, to 19, as nice(2) has it.

    Where the kernel divides the processors between sessions before it does within one (sched(7), "The autogroup
    feature"), a process that stays in the session of another gains nothing on those of every third: each has as much as
    all of its own together. So this one gets a session of its own, of the same priority. What the machine does not
    allow is left as it is. Threads that were started before are not meant.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, priority)
    with contextlib.suppress(OSError):
        if os.getsid(0) != os.getpid():
            os.setsid()
        _GROUP.write_text(str(priority))
    _take_short_turns()


def open_many_files() -> None:
    """Have as many files and connections open as the machine allows: of most shells it is 1,024 unless one asks."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _take_short_turns() -> None:
    """Have a processor for a little less at a time than others have, and that at once when there is something to do.

    Linux since 6.12 breaks a turn off only for whoever takes a shorter one ("EEVDF Scheduler" in its documentation);
    everybody else waits for its end, which is noticed every 4 ms. Usual turns are 1.4 ms with two processors.
    One that is over in the middle of a call may well be followed by those of all others.
    """
    number = _SETTING_ATTRIBUTES.get(platform.machine())
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    size = struct.calcsize(_ATTRIBUTES)
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    told = struct.pack(_ATTRIBUTES, size, os.SCHED_OTHER, 0, priority, 0, _TURN, 0, 0)
    ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_long(0), told, ctypes.c_long(0))


class Start:
    """What a child tells its parent, once, through the pipe that it was passed: that it serves, or why it does not."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def succeeded(self) -> None:
        """It serves."""
        self._tell(READY)

    def failed(self, message: str) -> None:
        """It ends, whether it has served or not. The log is told too, which may be on a disk that is full."""
        with contextlib.suppress(OSError):
            self._tell(f"{message}\n".encode())
        with contextlib.suppress(OSError):
            print(message, file=sys.stderr, flush=True)  # noqa: T201 - standard error is the log

    def _tell(self, text: bytes) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                os.write(descriptor, text)
            finally:
                os.close(descriptor)


def say(text: str) -> None:
    """Tell whoever started this process one thing, on standard error."""
    print(f"lading: {text}", file=sys.stderr, flush=True)  # noqa: T201


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Have what is made meanwhile, also by processes that are started, readable by its owner only."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


async def ended(pid: int) -> None:
    """Wait until a child of this process has ended; its status is left to be collected."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
