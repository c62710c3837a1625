"""One control group for each container: limits, counts, and the processes to kill.

The group is `/lading/<container uuid>` in each hierarchy of the machine: version 1 (one hierarchy
for each controller, including hybrid machines) or version 2. A machine without cgroups, or without
a controller, has other ways to enforce the limit, or none (`limit_ways`).

Version 1 groups are joined by writing to `tasks`, not `cgroup.procs`: a thread that moves itself
need not wait for all other threads of the machine.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import msgspec

PARENT = "lading"
# Microseconds: the kernel's default period of CPU quotas.
PERIOD = 100_000
LEAST_RAM = 16 << 20
"""Bytes. A smaller limit would not even hold the start of a process."""
_CONTROLLERS = ("memory", "cpu", "cpuacct", "pids", "blkio", "io")
# Seconds for processes to die after KILL.
_KILL_TIME = 10.0
# Bytes of one read of a kernel file.
_BUFFER = 1 << 16
# Links of a directory without subdirectories: its name and its own ".".
_BARE = 2


class Hierarchy(msgspec.Struct, frozen=True):
    """Directories of the cgroup controllers of this machine, by controller. Version 2 has one for
    all.
    """

    version: int
    roots: Mapping[str, Path]


# Parsed once: the controllers of a machine stay while it runs.
@lru_cache(maxsize=4)
def find_hierarchy(mounts: str, *, read: bool = True) -> Hierarchy:
    """The controllers in the text of /proc/mounts; none when no useful controller is mounted.

    A hybrid machine counts as version 1. `read`: read version 2's list of controllers.
    """
    roots: dict[str, Path] = {}
    unified: Path | None = None
    for line in mounts.splitlines():
        _, point, kind, options, *_ = line.split(" ")
        if kind == "cgroup2":
            unified = Path(point)
        elif kind == "cgroup":
            roots.update((name, Path(point)) for name in options.split(",") if name in _CONTROLLERS)
    if roots:
        return Hierarchy(1, MappingProxyType(roots))
    if unified is None:
        return Hierarchy(2, MappingProxyType({}))
    names = read_text(unified / "cgroup.controllers").split() if read else list(_CONTROLLERS)
    return Hierarchy(2, MappingProxyType({name: unified for name in names if name in _CONTROLLERS}))


def usable_controllers(hierarchy: Hierarchy) -> tuple[str, ...]:
    """Controllers of which this process may make groups: their mounts may be for reading alone."""
    return tuple(name for name, root in hierarchy.roots.items() if os.access(root, os.W_OK))


def memory_kills(folder: Path, *, version: int) -> int:
    """Number of processes in this group that the kernel killed for lack of memory; 0 when the group
    is gone.
    """
    file = "memory.oom_control" if version == 1 else "memory.events"
    return _table(read_text(folder / file)).get("oom_kill", 0)


def refused_processes(folder: Path) -> int:
    """Number of new processes and threads that the kernel refused this group because of its limit;
    0 when the group is gone.
    """
    return _table(read_text(folder / "pids.events")).get("max", 0)


class Cgroup:
    """The control group of one container. The constructor makes nothing."""

    def __init__(self, hierarchy: Hierarchy, name: str) -> None:
        self._hierarchy = hierarchy
        self._paths = {
            controller: root / PARENT / name for controller, root in hierarchy.roots.items()
        }
        self._folders = list(dict.fromkeys(self._paths.values()))
        self._parents = [folder.parent for folder in self._folders]
        self._is_gone = False
        self.enforced: frozenset[str] = frozenset()
        """Controllers that enforce a limit of the group."""

    @property
    def join_files(self) -> list[str]:
        """Files to which a process writes 0 to join."""
        name = "tasks" if self._hierarchy.version == 1 else "cgroup.procs"
        return [str(folder / name) for folder in self._folders]

    @property
    def takes_threads(self) -> bool:
        """Whether a thread can be in the group without the rest of its process."""
        return self._hierarchy.version == 1

    def join(self) -> None:
        """Move the calling thread, and the processes that it starts, into the group; for groups
        that contain threads. Raises OSError.
        """
        for file in self.join_files:
            descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, b"0")
            finally:
                os.close(descriptor)

    def make(self, *, ram: int = 0, vcpus: int = 0, processes: int = 0) -> list[str]:
        """Make the group with these limits (bytes, numbers; 0 is none); return sentences on groups
        that cannot be made and limits that cannot be set. `enforced` has the others.
        """
        self._is_gone = False
        notes = []
        for folder in list(self._folders):
            try:
                self._make_folder(folder)
            except OSError as error:
                self._drop(folder)
                notes.append(f"cgroup {folder} cannot be made: {error.strerror}")
        limits = (
            ("memory", ram, self._limit_ram),
            ("cpu", vcpus, self._limit_cpu),
            ("pids", processes, self._limit_pids),
        )
        enforced = set()
        for controller, amount, limit in limits:
            if not amount or controller not in self._paths:
                continue
            try:
                limit(self._paths[controller], amount)
                enforced.add(controller)
            except OSError as error:
                notes.append(f"the {controller} limit of {amount} cannot be set: {error.strerror}")
        self.enforced = frozenset(enforced)
        return notes

    def out_of_memory_kills(self) -> int:
        """Number of processes that the kernel killed because the group's memory was used up."""
        folder = self._paths.get("memory")
        return memory_kills(folder, version=self._hierarchy.version) if folder else 0

    def refused_processes(self) -> int:
        """Number of new processes and threads that the kernel refused because of the limit."""
        folder = self._paths.get("pids")
        return refused_processes(folder) if folder else 0

    def processes(self) -> set[int]:
        """The processes in the group, without this one, of which at most a thread was there a
        moment ago.
        """
        pids = {
            int(number)
            for folder in self._folders
            for number in read_text(folder / "cgroup.procs").split()
        }
        return pids - {os.getpid()}

    def remove_empty(self) -> bool:
        """Remove the group if it is empty; whether it is gone. Quick.

        The kernel removes no group with processes (EBUSY), so nothing of the container runs when
        this returns True.
        """
        if self._is_gone:
            return True
        try:
            for folder in self._folders:
                # crun or the daemon has removed it already.
                with contextlib.suppress(FileNotFoundError):
                    folder.rmdir()
        except OSError:
            # Still in use.
            return False
        for parent in self._parents:
            _remove_last(parent)
        self._is_gone = True
        return True

    def remove(self) -> list[int]:
        """Kill the remaining processes and remove the group; blocks for some milliseconds, at most
        ten seconds.

        Returns the processes that did not die, in which case the group stays.
        """
        until = time.monotonic() + _KILL_TIME
        while left := self.processes():
            if time.monotonic() > until:
                return sorted(left)
            # A process may fork between the list and the kill, so the loop repeats until none is
            # left.
            for pid in left:
                # The process has ended already.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            # SIGKILL takes effect within a millisecond or two; groups of version 1 send no event.
            time.sleep(0.002)
        for folder in self._folders:
            self._remove_folder(folder, until)
        return []

    def _remove_folder(self, folder: Path, until: float) -> None:
        # A group stays busy for a moment after its last process has ended.
        while folder.exists():
            try:
                folder.rmdir()
            except OSError:
                if time.monotonic() > until:
                    raise
                # rmdir is the only test; the kernel releases dead processes within a millisecond.
                time.sleep(0.001)
        _remove_last(folder.parent)

    def _make_folder(self, folder: Path) -> None:
        # Another supervisor that ends may remove the common parent in between.
        for _ in range(100):
            try:
                self._enable(folder)
                folder.mkdir(parents=True, exist_ok=True)
            except FileNotFoundError:
                # Another process removed the parent at the same moment; try again.
                continue
            return
        folder.mkdir()

    def _enable(self, folder: Path) -> None:
        if self._hierarchy.version == 1:
            return
        # In version 2 "cpu" includes "cpuacct".
        wanted = " ".join(f"+{name}" for name in sorted(self._paths) if name != "cpuacct")
        for parent in (folder.parent.parent, folder.parent):
            parent.mkdir(exist_ok=True)
            (parent / "cgroup.subtree_control").write_text(wanted)

    def _drop(self, folder: Path) -> None:
        self._folders.remove(folder)
        self._paths = {name: path for name, path in self._paths.items() if path != folder}

    def _limit_ram(self, folder: Path, amount: int) -> None:
        amount = max(amount, LEAST_RAM)
        if self._hierarchy.version == 2:
            (folder / "memory.max").write_text(str(amount))
            if (folder / "memory.swap.max").exists():
                # Without swap, so that the limit is one of memory alone.
                (folder / "memory.swap.max").write_text("0")
            return
        (folder / "memory.limit_in_bytes").write_text(str(amount))
        if (folder / "memory.memsw.limit_in_bytes").exists():
            # Memory and swap together, set after the smaller limit (cgroup v1, memory.txt).
            (folder / "memory.memsw.limit_in_bytes").write_text(str(amount))

    def _limit_cpu(self, folder: Path, amount: int) -> None:
        if self._hierarchy.version == 2:
            (folder / "cpu.max").write_text(f"{amount * PERIOD} {PERIOD}")
        else:
            (folder / "cpu.cfs_quota_us").write_text(str(amount * PERIOD))

    def _limit_pids(self, folder: Path, amount: int) -> None:
        (folder / "pids.max").write_text(str(amount))


def read_text(path: Path) -> str:
    """A file of the kernel, "" when it cannot be read. With half the system calls of
    `Path.read_text`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        # The file does not exist in this version of the kernel, or the group is gone.
        return ""
    parts = []
    try:
        # The kernel returns a long file in parts, however large the buffer.
        while part := os.read(descriptor, _BUFFER):
            parts.append(part)
    except OSError:
        # The group was removed during the read.
        return ""
    finally:
        os.close(descriptor)
    return b"".join(parts).decode(errors="replace")


def _table(content: str) -> dict[str, int]:
    """Parse lines of `name number`."""
    pairs = (line.split() for line in content.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _remove_last(parent: Path) -> None:
    """Remove the common parent of groups when it is empty; even an attempt takes the lock of all
    groups.
    """
    # In use by others, or removed by them.
    with contextlib.suppress(OSError):
        if parent.stat().st_nlink <= _BARE:
            parent.rmdir()
