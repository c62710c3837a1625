"""Notices of writes to files of the HPC daemon, by inotify(7), so that no polling is needed.

Events are read only while a caller waits; in between the kernel merges equal ones. Where no more
inotify instances are available, the waiting caller polls once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
from pathlib import Path

# Events of inotify(7).
_MODIFY, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x80, 0x100, 0x200
# Bytes of events that are read at a time; their content does not matter.
_MOST = 1 << 16
# Seconds between two looks where inotify cannot be used.
_WITHOUT = 1.0


class Notices:
    """Notices of changes to files, and to the direct entries of directories."""

    def __init__(self, *, without: float = _WITHOUT) -> None:
        """`without`: seconds between two polls where the kernel sends no events."""
        self._without = without
        self._descriptor = -1
        self._waiting: set[asyncio.Event] = set()

    def open(self, *paths: Path) -> bool:
        """Begin to watch; return whether the kernel reports changes to all of the paths."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        mask = _MODIFY | _MOVED_TO | _CREATE | _DELETE
        if self._descriptor >= 0 and all(
            libc.inotify_add_watch(self._descriptor, os.fsencode(path), mask) >= 0 for path in paths
        ):
            return True
        self.close()
        return False

    def close(self) -> None:
        """Stop watching."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    async def one(self) -> None:
        """Wait until something may have changed."""
        if self._descriptor < 0:
            await asyncio.sleep(self._without)
            return
        event = asyncio.Event()
        if not self._waiting:
            asyncio.get_running_loop().add_reader(self._descriptor, self._take)
        self._waiting.add(event)
        try:
            await event.wait()
        finally:
            self._waiting.discard(event)
            if not self._waiting:
                asyncio.get_running_loop().remove_reader(self._descriptor)

    def _take(self) -> None:
        # Nothing has happened.
        with contextlib.suppress(BlockingIOError):
            os.read(self._descriptor, _MOST)
        self.tell()

    def tell(self) -> None:
        """Note a change that the kernel does not report."""
        for event in self._waiting:
            event.set()
