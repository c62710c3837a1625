"""Files of a container that have no name any more: they take space of a disk while a process has
them open or mapped.

A container may make many descriptors, to hide a file or to make the search long. So the threads of
a process count that have descriptors of their own, and the search ends with an error after
`MAX_OPEN` descriptors. Descriptors that are in a message between processes are found nowhere in
/proc; a project quota counts their files (`project_quota`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from lading.core.containers.disk_space import Amount

MAX_OPEN: Final = 2_000_000
"""Descriptors and mappings of all processes of a container that are looked at."""
BLOCK: Final = 512
"""Bytes: st_blocks counts units of 512 bytes (stat(2))."""
_PROC: Final = Path("/proc")
# Numbers of kcmp(2), and KCMP_FILES of linux/kcmp.h.
_KCMP: Final = {"x86_64": 312, "aarch64": 272, "riscv64": 272}
_FILES: Final = 2
_libc = ctypes.CDLL(None, use_errno=True)


def held_open(
    pids: Iterable[int], *, proc: Path = _PROC, most: int = MAX_OPEN
) -> dict[int, Amount]:
    """Open or mapped files of the processes that have no name, by device.

    Raises OSError (EMFILE) when there are more than `most` descriptors and mappings.
    """
    uses: dict[int, Amount] = {}
    seen_files: set[tuple[int, int]] = set()
    for number, status in enumerate(status for pid in pids for status in _open_files(proc, pid)):
        if number >= most:
            raise OSError(errno.EMFILE, f"more than {most} files are open")
        key = (status.st_dev, status.st_ino)
        # Files in memory and devices have no blocks here.
        if status.st_nlink == 0 and status.st_blocks and key not in seen_files:
            seen_files.add(key)
            uses[status.st_dev] = uses.get(status.st_dev, Amount()) + Amount(
                status.st_blocks * BLOCK, 1
            )
    return uses


def _open_files(proc: Path, pid: int) -> Iterator[os.stat_result]:
    mapped = 0
    for thread in _threads(proc, pid):
        yield from _stats(proc / str(thread) / "fd")
        # All threads have the same mappings; a first thread that has ended shows none.
        # map_files: a mapped file may have no descriptor (proc_pid_map_files(5)).
        if not mapped:
            for status in _stats(proc / str(thread) / "map_files"):
                mapped += 1
                yield status


def _stats(folder: Path) -> Iterator[os.stat_result]:
    # The process has ended, or its files are not visible to this user.
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            try:
                yield entry.stat()
            except OSError:
                continue


def _threads(proc: Path, pid: int) -> Iterator[int]:
    """The first thread of a process, and those that do not share its descriptors.

    The kernel shows each thread at /proc/TID, although it does not list it there.
    """
    yield pid
    try:
        threads = [int(name) for name in os.listdir(proc / str(pid) / "task")]  # noqa: PTH208
    except OSError:
        # The process has ended.
        return
    yield from (thread for thread in threads if thread != pid and not _share(pid, thread))


def _share(thread: int, second: int) -> bool:
    """Whether two threads have the same table of descriptors."""
    number = _KCMP.get(platform.machine())
    if number is None:
        return False
    # Another answer than 0 is an order, or -1 without permission or support.
    return int(_libc.syscall(number, thread, second, _FILES, 0, 0)) == 0
