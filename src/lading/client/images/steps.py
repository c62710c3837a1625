"""Steps of the long work on an image in a thread: they are shown, and end early when cancelled.

The work calls `at` or `check` every few milliseconds.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any, TypeVar, cast

from lading.process.cancellation import Stop, Stopped, never
from lading.process.concurrency import in_thread

Report = Callable[[str, int, int], None]
"""Takes the step, the number of things done, and that of all (0: unknown)."""
_Answer = TypeVar("_Answer")
# Seconds between two looks of the watcher of a process.
_WATCH = 0.1
# Seconds between two reports of one step.
_PAUSE = 0.1


class ImageSteps:
    """Reports the steps of one work, and ends it: raises Stopped once `stop` returns true."""

    def __init__(self, stop: Stop = never, report: Report | None = None) -> None:
        self._stop, self._report = stop, report
        self._due = 0.0

    def at(self, step: str, done: int = 0, total: int = 0) -> None:
        """Report a step. Raises Stopped."""
        self.check()
        if self._report is None:
            return
        now = time.monotonic()
        if done == 0 or now >= self._due:
            self._due = now + _PAUSE
            self._report(step, done, total)

    def check(self) -> None:
        """Raise Stopped if the work has to end."""
        if self._stop():
            raise Stopped

    def reading(self, file: IO[bytes]) -> IO[bytes]:
        """The file, with a check at each read."""
        return cast("IO[bytes]", _CheckedFile(file, self))

    @contextmanager
    def ending(self, process: subprocess.Popen[Any], *, limit: float) -> Generator[None]:
        """Inside, the process is sent SIGTERM once the work has to end, and after `limit` seconds.
        Raises Stopped at the end.
        """
        over = threading.Event()
        watcher = threading.Thread(
            target=self._watch, args=(process, time.monotonic() + limit, over), name="image-steps"
        )
        watcher.start()
        try:
            yield
        except BaseException:
            process.terminate()
            process.wait()
            raise
        finally:
            over.set()
            watcher.join()
        self.check()

    def _watch(self, process: subprocess.Popen[Any], end: float, over: threading.Event) -> None:
        while not over.wait(_WATCH):
            if self._stop() or time.monotonic() > end:
                process.terminate()
                return


class _CheckedFile:
    def __init__(self, file: IO[bytes], steps: ImageSteps) -> None:
        self._file, self._steps = file, steps

    def read(self, size: int = -1) -> bytes:
        self._steps.check()
        return self._file.read(size)


async def run_steps(work: Callable[[ImageSteps], _Answer], report: Report | None = None) -> _Answer:
    """The result of long work on an image, done in a thread. When the caller is cancelled the work
    ends early; the caller waits for its end, before which its files must not be removed.
    """
    return await in_thread(lambda stop, _: work(ImageSteps(stop, report)), is_waited_for=True)


UNWATCHED = ImageSteps()
"""The steps of work that nobody watches or ends."""


@contextmanager
def dropping_unstarted(pool: ThreadPoolExecutor) -> Generator[None]:
    """Where the work inside fails or ends early, drop the work of the pool that has not begun."""
    try:
        yield
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
