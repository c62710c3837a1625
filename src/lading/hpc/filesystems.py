"""Watching the file systems that the code shares with others: FSError while one of them does not
answer.

A network file system that hangs hangs whoever asks, for as long as it likes. So it is asked from a
thread of its own that nobody waits for longer than a moment; while that thread hangs, no other is
started.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

# Seconds between two looks, and until a file system counts as not responding.
PERIOD = 5.0
PATIENCE = 10.0


def _first_entry(path: Path) -> object:
    """Something that only the file system itself can say, however much there is in it. Raises
    OSError.
    """
    with os.scandir(path) as entries:
        return next(entries, None)


@dataclass(slots=True)
class Watch:
    """Asks one directory. `ask` blocks, and raises OSError when the file system has failed."""

    path: Path
    ask: Callable[[Path], object] = _first_entry
    patience: float = PATIENCE
    _asking: threading.Thread | None = None
    _fault: str = ""

    async def fault(self) -> str:
        """What is wrong with it; "" when it answers."""
        if self._asking is not None and self._asking.is_alive():
            return f"{self.path} does not answer"
        loop = asyncio.get_running_loop()
        answered = asyncio.Event()
        self._asking = threading.Thread(target=self._try, args=(loop, answered), daemon=True)
        self._asking.start()
        try:
            await asyncio.wait_for(answered.wait(), self.patience)
        except TimeoutError:
            return f"{self.path} does not answer"
        return self._fault

    def _try(self, loop: asyncio.AbstractEventLoop, answered: asyncio.Event) -> None:
        try:
            self.ask(self.path)
            self._fault = ""
        except OSError as error:
            self._fault = f"{self.path}: {error.strerror}"
        if not loop.is_closed():
            loop.call_soon_threadsafe(answered.set)


async def watch(
    paths: Callable[[], tuple[Path, ...]],
    tell: Callable[[str], None],
    *,
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Tell, period by period, what is wrong with the first that fails, or "" when all answer; until
    cancelled.
    """
    watches: dict[Path, Watch] = {}
    while True:
        wanted = paths()
        faults = [await watches.setdefault(path, Watch(path)).fault() for path in wanted]
        tell(next((fault for fault in faults if fault), ""))
        await sleep(PERIOD)
