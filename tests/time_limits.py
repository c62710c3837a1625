"""A time limit for each test case, set-up and teardown included: `timeout` of pyproject.toml, ten
minutes for a `long` one.

A case beyond its limit fails, and its failure names what it waited for: where each thread and each
task stands, and the processes of the case with the end of their output. Its fixtures then tidy up;
processes that remain are ended. A case that goes on regardless is interrupted again after
`_GRACE`, without its processes; then the whole process of pytest ends, which pytest-xdist replaces.

pytest-timeout gives the option `--timeout` and the mark `timeout`; this module gives it the timer.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import pytest
import pytest_timeout

from tests.case_processes import Owners, Process, end, still_running

_LONG: Final = 600.0
_GRACE: Final = float(os.environ.get("LADING_TEST_GRACE", "30"))
_PARTING: Final = 2.0
"""Seconds for processes that a case has asked to end."""
_FRAMES: Final = 12
_RUNNERS: Final = ("/pluggy/", "/_pytest/", "/execnet/", "/xdist/")
"""Packages whose frames say nothing about a case."""

_OWNERS: Final = Owners()
_STDERR: Final = pytest.StashKey[int]()
_ROOT: Final = f"{Path(__file__).parents[1]}/"


class TimeLimitExceeded(BaseException):
    """A case was not done in its time. No `except Exception` of what it tests holds this up."""


class Timer:
    """The timer of one case. It interrupts the main thread by SIGALRM."""

    current: Timer | None = None

    def __init__(self, seconds: float, stderr: int) -> None:
        self._seconds, self._stderr = seconds, stderr
        self._rings, self._report = 0, ""
        self._earlier: Any = None
        # Threads of one case may pause it at the same time.
        self._lock, self._pauses, self._left = threading.Lock(), 0, 0.0

    def start(self) -> None:
        """Start it."""
        self._earlier = signal.signal(signal.SIGALRM, self._ring)
        Timer.current = self
        self._arm(self._seconds)

    def stop(self) -> None:
        """Stop it for good."""
        self._disarm()
        signal.signal(signal.SIGALRM, self._earlier)
        Timer.current = None

    @property
    def has_rung(self) -> bool:
        """Whether the case was not done in its time."""
        return self._rings > 0

    @property
    def remaining(self) -> float:
        """Seconds until it interrupts the case; 0 while it is paused."""
        return signal.getitimer(signal.ITIMER_REAL)[0]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time that does not count."""
        with self._lock:
            self._pauses += 1
            if self._pauses == 1:
                self._left = self._disarm()
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1
                if not self._pauses:
                    self._arm(self._left or _GRACE)

    def _arm(self, seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds, _GRACE)
        # For a main thread that runs no Python code, and so no handler of signals.
        faulthandler.dump_traceback_later(seconds + 4 * _GRACE, exit=True, file=self._stderr)

    def _disarm(self) -> float:
        faulthandler.cancel_dump_traceback_later()
        return signal.setitimer(signal.ITIMER_REAL, 0)[0]

    def _ring(self, number: int, frame: FrameType | None) -> None:
        self._rings += 1
        processes = _OWNERS.of_case()
        report = _waits(frame, processes)
        self._report = self._report or report
        if self._rings > 1:
            end(processes)
        if self._rings > 3:
            message = f"\nno interruption ends the case, which waited first:\n{self._report}\n"
            os.write(self._stderr, message.encode())
            end(_OWNERS.of_run())
            os._exit(1)
        raise TimeLimitExceeded(f"not done in {self._seconds:g} s\n{report}")


@contextmanager
def untimed() -> Iterator[None]:
    """Time that counts for no case, such as that in which an environment for many is installed."""
    if Timer.current is None:
        yield
    else:
        with Timer.current.paused():
            yield


@contextmanager
def started_for_all(name: str) -> Iterator[None]:
    """Processes that a case starts meanwhile in place of those of the shared fixture `name`."""
    with _OWNERS.wide_fixture(name):
        yield


@pytest.hookimpl
def pytest_configure(config: pytest.Config) -> None:
    """Keep the standard error of the run: that of a case is captured."""
    config.stash[_STDERR] = os.dup(2)


@pytest.hookimpl
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Give long cases more time, but for those with a limit of their own."""
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_LONG))


@pytest.hookimpl
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> bool:
    """Start the timer of a case; none where a person may look into it with a debugger."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and not item.config.getoption("usepdb") and not pytest_timeout.is_debugging():
        Timer(settings.timeout, item.config.stash[_STDERR]).start()
    return True


@pytest.hookimpl
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool:
    """Not yet: this is called when a case has failed, and its teardown too may wait for ever."""
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Stop the timer after the teardown, and end the processes that remain of the case."""
    _OWNERS.begin_case()
    try:
        return (yield)
    finally:
        timer = Timer.current
        if timer is not None:
            timer.stop()
        if timer is not None and timer.has_rung:
            end(_OWNERS.of_case())


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a case that has left a process, and end that."""
    result = yield
    if Timer.current is not None and Timer.current.has_rung:
        # What it left is ended after the teardown; it has been named.
        return result
    left = still_running(_OWNERS.children_of_case(), _PARTING)
    if left:
        described = "\n".join(process.describe() for process in left)
        end(left)
        pytest.fail(f"the case left running:\n{described}", pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
    """A fixture that cases share owns the processes that it starts."""
    if fixturedef.scope == "function":
        return (yield)
    with _OWNERS.wide_fixture(fixturedef.argname):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End the processes of the run, and name them."""
    left = _OWNERS.of_run()
    for process in left:
        os.write(config.stash[_STDERR], f"\nthe run left {process.describe()}\n".encode())
    end(left)


def _waits(frame: FrameType | None, processes: Sequence[Process]) -> str:
    """Where each thread and each task stands, and the processes of the case."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    lines = []
    for ident, other in sys._current_frames().items():
        stack = traceback.extract_stack(frame if ident == main else other)
        frames = [one for one in stack if not any(name in one.filename for name in _RUNNERS)]
        if frames:
            lines.append(f"thread {names.get(ident, ident)}:")
            lines += [_line(one.filename, one.lineno or 0, one.name) for one in frames[-_FRAMES:]]
    for task in _tasks():
        lines.append(f"task {task.get_name()}:")
        lines += _awaited(task.get_coro())
    lines += [process.describe() for process in processes] or ["no process of the case runs"]
    return "\n".join(lines)


def _tasks() -> list[asyncio.Task[Any]]:
    try:
        return [*asyncio.all_tasks()]
    except RuntimeError:
        return []


def _awaited(waiting: Any) -> Iterator[str]:
    """The chain of coroutines and generators, each waiting for the next."""
    while waiting is not None:
        for prefix, inner in (("cr", "cr_await"), ("gi", "gi_yieldfrom"), ("ag", "ag_await")):
            frame = getattr(waiting, f"{prefix}_frame", None)
            if frame is not None:
                code: CodeType = frame.f_code
                yield _line(code.co_filename, frame.f_lineno, code.co_qualname)
                waiting = getattr(waiting, inner)
                break
        else:
            yield f"    for {waiting!r:.200}"
            return


def _line(file: str, number: int, function: str) -> str:
    return f"    {file.removeprefix(_ROOT)}:{number} {function}"
