"""Samples of the memory of a container that has no control group, and the limit by them.

All processes of a pid namespace are listed in the /proc of its container, also those that a thread
has started or whose parent has ended. The memory of each process is what it alone has: private
pages, its part of those that it shares, and what is swapped out. Pages of files are left out, since
the kernel takes them back. Files in /dev/shm count, also where no process has them open.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lading.core import memory_sampling

_PROC = Path("/proc")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Bytes of a unit of the tables below.
_KIB = 1024
# Lines of /proc/PID/status: memory of a process, in which shared pages count for each process.
_QUICK = ("RssAnon", "RssShmem", "VmSwap")
# Lines of /proc/PID/smaps_rollup: the part of a process. The kernel visits all its pages for it.
_PRIVATE, _SHARED = ("Pss_Anon", "SwapPss"), ("Pss_Shmem",)
# Seconds between two looks for the first process of the container.
_LOOK = 0.01


@dataclass(slots=True)
class ContainerMemory:
    """The processes of one container, as its own /proc lists them; a context manager."""

    first: int
    """Its first process, by its number on this machine."""
    proc: Path = _PROC
    _listed: int = -1
    _shared: int = -1

    def open(self) -> bool:
        """Open its /proc and /dev/shm; False as long as its first process has not changed its root
        yet, and sees those of the machine. Raises OSError when it has ended.
        """
        root = os.open(self.proc / str(self.first) / "root", _FOLDER)
        try:
            self._listed = os.open("proc", _FOLDER, dir_fd=root)
            if _lists_this_process(self._listed):
                self.close()
                return False
            # An engine may make none.
            with contextlib.suppress(OSError):
                self._shared = os.open("dev/shm", _FOLDER | os.O_NOFOLLOW, dir_fd=root)
        except FileNotFoundError:
            # The new root has no /proc yet.
            return False
        finally:
            os.close(root)
        return True

    def close(self) -> None:
        """Close both. Idempotent."""
        for descriptor in (self._listed, self._shared):
            if descriptor >= 0:
                os.close(descriptor)
        self._listed = self._shared = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sample(self, limit: int) -> int:
        """Bytes of memory that the container uses. Shared pages are told apart only where the use
        may be more than `limit`. Raises OSError when the container has ended.
        """
        # `self._listed` is a descriptor, which pathlib does not take.
        pids = [name for name in os.listdir(self._listed) if name.isdigit()]  # noqa: PTH208
        in_files = self._in_files()
        quick = sum(sum(self._read(pid, "status", _QUICK).values()) for pid in pids) + in_files
        if quick <= limit:
            return quick
        private = shared = 0
        for pid in pids:
            values = self._read(pid, "smaps_rollup", (*_PRIVATE, *_SHARED))
            private += sum(values.get(name, 0) for name in _PRIVATE)
            shared += sum(values.get(name, 0) for name in _SHARED)
        # Files in /dev/shm that processes have mapped are shared pages too.
        return private + max(shared, in_files)

    def _in_files(self) -> int:
        if self._shared < 0:
            return 0
        status = os.fstatvfs(self._shared)
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    def _read(self, pid: str, name: str, keys: tuple[str, ...]) -> dict[str, int]:
        try:
            descriptor = os.open(f"{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._listed)
            with open(descriptor, encoding="utf-8", errors="replace") as file:
                rows = [line.partition(":") for line in file]
        except OSError:
            # The process has ended.
            return {}
        return {key: int(value.split()[0]) * _KIB for key, _, value in rows if key in keys}


def _lists_this_process(proc: int) -> bool:
    """Whether a mounted /proc, by its descriptor, is of the pid namespace of this process or of one
    above it: only there has this process a number.
    """
    try:
        os.readlink("self", dir_fd=proc)
    except FileNotFoundError:
        return False
    return True


@dataclass(slots=True)
class MemoryLimit:
    """Ends a container by `end` when a sample finds more than `ram` bytes. `find_first` returns its
    first process once it is known.
    """

    ram: int
    find_first: Callable[[], int | None]
    end: Callable[[int], None]
    """Called with the first process."""
    excess: int = 0
    """Bytes of the sample for which the container was ended; 0 if it was not."""
    proc: Path = _PROC

    async def run(self) -> None:
        """Sample until the container has ended, is ended here, or this call is cancelled."""
        while (first := self.find_first()) is None:  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(_LOOK)
        # The container has ended.
        with contextlib.suppress(OSError), ContainerMemory(first, self.proc) as memory:
            while not memory.open():  # noqa: ASYNC110 - the kernel tells nobody
                await asyncio.sleep(_LOOK)
            while True:
                used = memory.sample(self.ram)
                if used > self.ram:
                    self.excess = used
                    self.end(first)
                    return
                await asyncio.sleep(memory_sampling.pause(used, self.ram))
