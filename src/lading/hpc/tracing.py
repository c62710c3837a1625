"""Learning how every process of the code ends: ptrace, as the only way that works inside a
container.

Any process's non-zero exit counts (docs/spec/hpc-daemon, section Processes).
The kernel tells an exit code to the parent alone, and events of the
process connector or of taskstats never leave the machine's first namespaces. A tracer is told of
the end of everything that the traced ones start. They are stopped only when they start a process or
thread, or get a signal; between those they run at full speed. When this process dies they go on
untraced.

All of it happens on one thread, from the handler of SIGCHLD, since the kernel takes a thread as the
tracer.
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

WAIT_ALL = 0x40000000
"""__WALL: also for processes that were made without SIGCHLD, and for threads."""
# Requests of ptrace(2) (linux/ptrace.h).
_CONT, _SEIZE, _LISTEN = 7, 0x4206, 0x4208
_FOLLOW = 1 << 1 | 1 << 2 | 1 << 3
"""PTRACE_O_TRACEFORK, TRACEVFORK, TRACECLONE: what a traced process starts is traced from its
beginning.
"""
# PTRACE_EVENT_STOP.
_EVENT_STOP = 128
_GROUP_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class Tracer:
    """Follows processes. `processes`: those whose end counts, by id; their threads are left out."""

    def __init__(self) -> None:
        self._ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self._ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        self._ptrace.restype = ctypes.c_long
        self.processes: set[int] = set()

    def seize(self, pid: int) -> None:
        """Trace a process, and all that it starts from now on, without stopping it. Raises
        OSError.
        """
        if self._ptrace(_SEIZE, pid, None, _FOLLOW) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), f"process {pid}")
        self.processes.add(pid)

    def stopped(self, pid: int, status: int) -> None:
        """Let a traced process that has stopped go on; `status` is what waitpid said."""
        number, event = os.WSTOPSIG(status), status >> 16
        if pid not in self.processes and _is_process(pid):
            self.processes.add(pid)
        if event == _EVENT_STOP and number in _GROUP_STOPS:
            # Stopped by job control: it stays so until somebody continues it.
            self._ptrace(_LISTEN, pid, None, None)
        else:
            # A process that was killed meanwhile cannot be continued, which is no fault.
            self._ptrace(_CONT, pid, None, number if event == 0 else None)

    def ended(self, pid: int) -> bool:
        """Whether it was a traced process, and no thread of one. It is forgotten."""
        if pid in self.processes:
            self.processes.discard(pid)
            return True
        return False


def _is_process(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return f"\nTgid:\t{pid}\n" in text
