"""Waiting in tests without sleeping or polling.

A command of a test reports its progress by writing to a fifo (`Bell`). Waiters for a condition
check it again whenever something changed (`Pulse`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path


class Bell:
    """A fifo at `path`; `echo > path` rings it. Close it, or use it as a context."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        path.chmod(0o666)
        # Open for writing too: else it would ring when the first writer leaves.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Bell:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def rung(self, patience: float = 30.0) -> None:
        """Wait until it rings. Raises TimeoutError."""
        readable = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._descriptor, readable.set)
        try:
            await asyncio.wait_for(readable.wait(), patience)
        finally:
            loop.remove_reader(self._descriptor)

    def close(self) -> None:
        """Take it down."""
        os.close(self._descriptor)
        self.path.unlink(missing_ok=True)


class Pulse:
    """Waiters for a condition look again at each `beat`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def beat(self) -> None:
        """Wake all waiters, so that they check their conditions again."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Return as soon as `condition` holds at a beat, or now."""
        while not condition():
            await self._event.wait()
