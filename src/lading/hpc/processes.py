"""Processes of a container: the processes in /proc, and the exit codes of all by ptrace.

/proc gives descent and membership of the code, for signals.

Any process's non-zero exit counts (docs/spec/hpc-daemon, section Processes), and no interface but
ptrace gives it inside a container: the kernel reports an exit code to the parent alone, and events
of the process connector or of taskstats never leave the machine's first namespaces. A tracer learns
the end of every process that the traced ones start. They are stopped only when they start a process
or thread, or get a signal; between those they run at full speed. When this process dies they
continue untraced. All of it happens on one thread, from the handler of SIGCHLD, since the kernel
takes a thread as the tracer.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# prctl(2).
_PR_SET_PDEATHSIG = 1
# prctl(2).
_PR_SET_CHILD_SUBREAPER = 36
LAUNCHERS = frozenset({"orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy"})
"""Programs that `mpirun` starts on other machines, through ssh."""
MARK = "HPCAAS_RUN"
"""A variable in the environment of everything the daemon starts: it finds them again after its own
restart.
"""
_PROC = Path("/proc")
WAIT_ALL = 0x40000000
"""__WALL: also for processes that were made without SIGCHLD, and for threads."""
# Requests of ptrace(2) (linux/ptrace.h).
_CONT, _SEIZE, _LISTEN = 7, 0x4206, 0x4208
# PTRACE_O_TRACEFORK, TRACEVFORK, TRACECLONE: children of a traced process are traced from their
# beginning.
_FOLLOW = 1 << 1 | 1 << 2 | 1 << 3
# PTRACE_EVENT_STOP.
_EVENT_STOP = 128
_GROUP_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


@dataclass(frozen=True, slots=True)
class LiveProcess:
    """A process that has not ended. `born`: clock ticks from the start of the machine to that of
    the process; process id and `born` together are unique.
    """

    pid: int
    parent: int
    name: str
    born: int


def adopt_orphans() -> None:
    """From now on processes whose parents end become children of this one. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def end_with_parent() -> None:
    """Have the kernel send TERM to this process when its parent ends. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def look(pid: int) -> LiveProcess | None:
    """The process, None if it has ended; a zombie has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    before, _, after = text.rpartition(b")")
    fields = after.split()
    if fields[0] in b"ZX":
        return None
    return LiveProcess(
        pid, int(fields[1]), before.partition(b"(")[2].decode(errors="replace"), int(fields[19])
    )


def everything() -> Iterator[LiveProcess]:
    """All processes that can be seen."""
    for name in os.listdir(_PROC):  # noqa: PTH208 - once a second, so it has to be cheap
        if name.isdigit():
            found = look(int(name))
            if found is not None:
                yield found


def descendants(
    roots: Iterable[int], among: Iterable[LiveProcess] | None = None
) -> dict[int, LiveProcess]:
    """Descendants of `roots`, without the roots themselves, by id."""
    children: dict[int, list[LiveProcess]] = {}
    for process in everything() if among is None else among:
        children.setdefault(process.parent, []).append(process)
    below: dict[int, LiveProcess] = {}
    waiting = list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child.pid not in below:
                below[child.pid] = child
                waiting.append(child.pid)
    return below


def marked(mark: str) -> dict[int, LiveProcess]:
    """Processes with the mark of this run in their environment, by id."""
    variable = f"{MARK}={mark}".encode()
    processes = {}
    for process in everything():
        # The process has ended, or belongs to another user.
        with contextlib.suppress(OSError):
            if variable in (_PROC / str(process.pid) / "environ").read_bytes().split(b"\0"):
                processes[process.pid] = process
    return processes


def started_outside(code: str) -> dict[int, LiveProcess]:
    """Processes that another rank started here: processes with the name of the code, and MPI's
    launchers below sshd.

    Includes their descendants, but no process with the mark of a daemon, this one or another.
    """
    all_ = list(everything())
    sessions = descendants(
        [process.pid for process in all_ if process.name.startswith("sshd")], all_
    )
    short = code[:15]
    roots = {
        process.pid: process
        for process in all_
        if (
            (process.name == short and process.pid != os.getpid())
            or (process.name in LAUNCHERS and process.pid in sessions)
        )
        and _is_here(process.pid)
        and not _is_a_daemons(process.pid)
    }
    return roots | descendants(roots, all_)


def _is_here(pid: int) -> bool:
    """Whether a process belongs to this container and not to one inside it, which has a daemon of
    its own.
    """
    try:
        # os.readlink instead of Path: this runs for each process, once a second.
        return (
            os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115
            == os.readlink("/proc/self/ns/pid")  # noqa: PTH115
        )
    except OSError:
        return False


def _is_a_daemons(pid: int) -> bool:
    """Whether a daemon started a process. True also for a process that has ended or has not become
    its program yet: the kernel shows no mark of it, and a later look tells.
    """
    process = _PROC / str(pid)
    try:
        environment = (process / "environ").read_bytes()
        # Without either there is no program; one with an empty environment has a command.
        if not environment and not (process / "cmdline").read_bytes():
            return True
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        # It belongs to another user, and not to this daemon's code; or this daemon is no root, and
        # it has ended and is not collected yet.
        return _has_ended(process)
    return any(variable.startswith(f"{MARK}=".encode()) for variable in environment.split(b"\0"))


def _has_ended(process: Path) -> bool:
    try:
        # The name before the state may have parentheses.
        return (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes; ended ones are skipped."""
    for pid in pids:
        # The process has ended, or belongs to another user.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


class Tracer:
    """Follows processes. `processes`: the processes whose end counts, by id, without threads."""

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
        """Let a traced process that has stopped continue; `status` is the status of waitpid(2)."""
        number, event = os.WSTOPSIG(status), status >> 16
        if pid not in self.processes and _is_process(pid):
            self.processes.add(pid)
        if event == _EVENT_STOP and number in _GROUP_STOPS:
            # Stopped by job control: it stays so until a signal continues it.
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
