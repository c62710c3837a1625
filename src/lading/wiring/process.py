"""Duties of the child processes of `lading up`: options, end with the parent, report of readiness.

The command-line options have no secrets, since process lists show them.
"""

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lading.config.site import Config
from lading.process import telemetry
from lading.process.tracing import TracingSettings
from lading.wiring.directory import DataDirectory

READY = b"ready\n"
# linux/prctl.h: the signal that this process gets when its parent ends.
_PR_SET_PDEATHSIG = 1
_GROUP = Path("/proc/self/autogroup")
# System call numbers of sched_setattr(2), which most C libraries do not wrap.
_SETTING_ATTRIBUTES = {"x86_64": 314, "aarch64": 274}
# Its structure: size, policy, flags, nice, priority, runtime (the turn, in nanoseconds), deadline,
# period.
_ATTRIBUTES = "=IIQiIQQQ"
# Nanoseconds. With 0.1 ms a call lost its processor several times; a quarter as much waiting is
# left with this value.
_TURN = 1_300_000


def end_with_parent(parent: int) -> None:
    """Let the kernel send TERM to this process when `parent` ends; exit at once if it has ended.

    Raises SystemExit when the parent is gone.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    # The parent may have died before prctl; then the signal never comes.
    libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(0)


def come_before(priority: int) -> None:
    """Set the nice value of this process, from -20 (first) to 19, as in nice(2).

    With autogroups (sched(7), "The autogroup feature") the kernel first divides the CPU time
    between sessions, so the nice value of a process counts within its session only. Therefore this
    process gets its own session with the same nice value. Steps without permission are skipped.
    Threads that run already keep their nice value.
    """
    # Without CAP_SYS_NICE, as in a container, the process keeps its priority.
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, priority)
    # Not permitted everywhere, and not required.
    with contextlib.suppress(OSError):
        if os.getsid(0) != os.getpid():
            os.setsid()
        _GROUP.write_text(str(priority))
    _take_short_turns()


def open_many_files() -> None:
    """Raise the limit of open files to the hard limit; most shells set a soft limit of 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _take_short_turns() -> None:
    """Set a time slice a little shorter than the usual one, so that this process gets a processor
    at once when it has work.

    Linux since 6.12 preempts a running process only for one with a shorter slice ("EEVDF Scheduler"
    in its documentation); other processes wait for the end of the slice, which the kernel notices
    every 4 ms. The usual slice is 1.4 ms with two processors. Much shorter slices end in the middle
    of a call, and the slices of all other processes may follow.
    """
    number = _SETTING_ATTRIBUTES.get(platform.machine())
    # Real-time and batch policies were chosen by the operator and stay.
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    size = struct.calcsize(_ATTRIBUTES)
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = struct.pack(_ATTRIBUTES, size, os.SCHED_OTHER, 0, priority, 0, _TURN, 0, 0)
    # The result is ignored: without permission, or on an older kernel, nothing changes.
    ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_long(0), attributes, ctypes.c_long(0))


class StartReport:
    """Sends one message from a child to its parent through an inherited pipe: ready, or the reason
    of a failure.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def succeeded(self) -> None:
        """Report that the child serves."""
        self._tell(READY)

    def failed(self, message: str) -> None:
        """Report a failure, to the parent and to the log, which may be on a full disk."""
        # The parent has gone.
        with contextlib.suppress(OSError):
            self._tell(f"{message}\n".encode())
        with contextlib.suppress(OSError):
            print(message, file=sys.stderr, flush=True)  # noqa: T201 - standard error is the log

    def _tell(self, message: bytes) -> None:
        if self._descriptor >= 0:
            # Reset first, so that a second call writes nothing to a descriptor that may be reused.
            descriptor, self._descriptor = self._descriptor, -1
            try:
                os.write(descriptor, message)
            finally:
                os.close(descriptor)


def configure_logs(config: Config) -> None:
    """Write log lines as the configuration asks for. Raises Invalid."""
    logs = config.SystemLogs
    telemetry.configure(
        telemetry.read_level(logs.LogLevel), format=telemetry.read_format(logs.Format)
    )


def tracing_settings(config: Config) -> TracingSettings:
    """Where this site's traces go."""
    tracing = config.Tracing
    return TracingSettings(
        endpoint=tracing.Endpoint, ratio=tracing.SampleRatio, headers=dict(tracing.Headers)
    )


def say(message: str) -> None:
    """Print a message for the starter of this process on standard error."""
    print(f"lading: {message}", file=sys.stderr, flush=True)  # noqa: T201


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Make new files, also of child processes, readable by the owner only."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


async def ended(pid: int) -> None:
    """Wait until a child process has ended, without collecting its exit status."""
    # A pidfd becomes readable when the process ends (pidfd_open(2)). asyncio's child watcher would
    # collect the status, for which the caller's Popen waits.
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        # The process has ended already.
        return
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildOptions:
    """Options of a child: data directory, address of the server, parent process, descriptor for
    readiness.
    """

    directory: DataDirectory
    listen: str
    parent: int
    ready: int
    until_idle: bool = False
    """Whether the site ends after `Local.IdleShutdown`."""


def parse_options(name: str, arguments: Sequence[str] | None = None) -> ChildOptions:
    """Read the command line of the child `name`; raises SystemExit on errors."""
    # The parent process, which imports this module too, has no need of it.
    import argparse

    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--ready-fd", type=int, required=True)
    parser.add_argument(
        "--socket", type=Path, help="for one more server on the directory: its own local socket"
    )
    parser.add_argument("--until-idle", action="store_true", help="end after an idle time")
    options = parser.parse_args(arguments)
    return ChildOptions(
        directory=DataDirectory(options.data, options.socket),
        listen=options.listen,
        parent=options.parent,
        ready=options.ready_fd,
        until_idle=options.until_idle,
    )
