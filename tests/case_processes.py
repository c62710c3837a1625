"""The processes that a test case starts have one owner: the case, or the fixture of a wider scope
that starts them.

The owner is in their environment, which children inherit: so orphans are found too. A direct child
whose environment is made anew belongs to the case during which it was started, unless a wider
fixture started it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

VARIABLE: Final = "LADING_TEST_OWNER"
_LINES: Final = 20
_BYTES: Final = 8_192
_COMMAND: Final = 300
_ENDING: Final = 5.0
"""Seconds between SIGTERM and SIGKILL, and again until a killed process has ended."""
_PROC: Final = Path("/proc")


class Process(msgspec.Struct, frozen=True):
    """A process by its number and the time of its start, in ticks since the boot: numbers are used
    again.
    """

    pid: int
    started: int

    def is_alive(self) -> bool:
        """Whether it runs. A zombie does not."""
        status = _status(self.pid)
        return status is not None and status[0] not in "ZX" and status[2] == self.started

    def has_owner(self, mark: str) -> bool:
        """Whether the name of its owner begins so."""
        needle = f"{VARIABLE}={mark}".encode()
        entries = _read(_PROC / str(self.pid) / "environ").split(b"\0")
        return any(entry.startswith(needle) for entry in entries)

    def describe(self) -> str:
        """Its command, the kernel function in which it waits, and the end of its output."""
        folder = _PROC / str(self.pid)
        words = _read(folder / "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
        waits = _read(folder / "wchan").decode() or "?"
        status = _status(self.pid)
        head = f"process {self.pid}: {words[:_COMMAND]} (state {status and status[0]}, in {waits})"
        return "\n".join([head, *(f"    | {line}" for line in _last_output(self.pid))])


class Owners:
    """The owners of one run of pytest, and of the processes that it starts."""

    def __init__(self) -> None:
        outer = os.environ.get(VARIABLE, "")
        self._run = f"{outer}/{os.getpid()}-{time.monotonic_ns()}"
        self._numbers = itertools.count(1)
        self._wide: set[Process] = set()
        self._before: set[Process] = set()
        self._mark = ""

    def begin_case(self) -> None:
        """Processes that are started from now on belong to the next case."""
        self._mark = f"{self._run}/case{next(self._numbers)}/"
        os.environ[VARIABLE] = self._mark
        self._before = set(_children())

    @contextmanager
    def wide_fixture(self, name: str) -> Iterator[None]:
        """Processes that are started meanwhile belong to a fixture that cases share."""
        before, outer = set(_children()), os.environ.get(VARIABLE)
        os.environ[VARIABLE] = f"{self._run}/fixture-{name}/"
        try:
            yield
        finally:
            self._wide |= {*_children()} - before
            if outer is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = outer

    def children_of_case(self) -> list[Process]:
        """The direct children that the case has started and that still run; quick."""
        others = f"{self._run}/fixture-"
        started = [one for one in _children() if one not in self._before | self._wide]
        return [one for one in started if one.is_alive() and not one.has_owner(others)]

    def of_case(self) -> list[Process]:
        """All processes of the case that still run, in the order of their start."""
        processes = {*self.children_of_case(), *_marked(self._mark)}
        return sorted(processes, key=lambda process: (process.started, process.pid))

    def of_run(self) -> list[Process]:
        """All processes that still run and that were started during this run of pytest."""
        return _marked(f"{self._run}/")


def end(processes: Iterable[Process]) -> None:
    """End each by its number: SIGTERM, after some seconds SIGKILL."""
    waiting = [*processes]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in waiting:
            if process.is_alive():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, number)
        waiting = still_running(waiting, _ENDING)


def still_running(processes: Iterable[Process], patience: float) -> list[Process]:
    """Those that have not ended after `patience` seconds at most."""
    until = time.monotonic() + patience
    running = [one for one in processes if one.is_alive()]
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(process.pid)
            try:
                # A descriptor of a process can be read when the process has ended.
                select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
            finally:
                os.close(descriptor)
    return [one for one in running if one.is_alive()]


def _children() -> Iterator[Process]:
    """The direct children of this process, zombies too."""
    for path in Path("/proc/self/task").glob("*/children"):
        for word in _read(path).split():
            status = _status(int(word))
            if status is not None and status[1] == os.getpid():
                yield Process(int(word), status[2])


def _marked(mark: str) -> list[Process]:
    """The processes that run and whose owner has a name that begins so."""
    pids = [int(path.name) for path in _PROC.iterdir() if path.name.isdigit()]
    statuses = {pid: _status(pid) for pid in pids if pid != os.getpid()}
    processes = [Process(pid, status[2]) for pid, status in statuses.items() if status]
    return [one for one in processes if one.has_owner(mark) and one.is_alive()]


def _status(pid: int) -> tuple[str, int, int] | None:
    """State, parent and time of start; None if there is no such process."""
    words = _read(_PROC / str(pid) / "stat").rpartition(b") ")[2].split()
    return (words[0].decode(), int(words[1]), int(words[19])) if words else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _last_output(pid: int) -> list[str]:
    """The last lines of its standard output and error: of files, and of pipes that nobody has read
    yet.
    """
    pieces = {}
    for descriptor in ("1", "2"):
        path = _PROC / str(pid) / "fd" / descriptor
        with contextlib.suppress(OSError):
            target = str(path.readlink())
            if target not in pieces and (target.startswith("pipe:") or Path(target).is_file()):
                pieces[target] = _tail(path)
    written = b"\n".join(piece for piece in pieces.values() if piece)
    return written.decode(errors="replace").splitlines()[-_LINES:]


def _tail(path: Path) -> bytes:
    """The end of a file, or the content of a pipe. It is opened anew: the blocking mode of the end
    that somebody reads stays.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with contextlib.suppress(OSError):
            os.lseek(descriptor, max(0, os.fstat(descriptor).st_size - _BYTES), os.SEEK_SET)
        return os.read(descriptor, _BYTES)
    finally:
        os.close(descriptor)
