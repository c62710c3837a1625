"""Signals that end a command: Ctrl-C, SIGTERM, and SIGHUP when its terminal is closed.

A command that is ended removes its temporary files first. Ctrl-C gives exit code 130. After SIGTERM
and SIGHUP the process ends by the same signal, which shells show as 143 and 129. Work that only
reads or computes in a thread is not waited for.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from types import FrameType
from typing import NoReturn, TypeVar

import click

from lading.cli import display
from lading.cli.exit_codes import INTERRUPTED

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_Answer = TypeVar("_Answer")


class Terminated(SystemExit):
    """A signal ended the command; `code` is 128 and the number of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextmanager
def raising() -> Generator[None]:
    """Inside, SIGTERM and SIGHUP raise Terminated. Signals that are ignored stay ignored, as after
    `nohup`.
    """

    def end(number: int, _frame: FrameType | None) -> None:
        raise Terminated(number)

    with _handled(end):
        yield


def run_in_loop(work: Awaitable[_Answer]) -> _Answer:
    """Result of the work, in a new event loop. Ctrl-C, SIGTERM and SIGHUP cancel it, and raise
    KeyboardInterrupt or Terminated once it has ended; a second signal raises at once.
    """
    pool = _Threads()

    async def run() -> _Answer:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        loop.set_default_executor(pool)
        received: list[int] = []

        def end(number: int, _frame: FrameType | None) -> None:
            if received:
                raise Terminated(number)
            received.append(number)
            pool.are_left = True
            task.cancel()
            # Wakes the loop.
            loop.call_soon_threadsafe(lambda: None)

        with _handled(end):
            try:
                return await work
            except BaseException as error:
                pool.are_left = pool.are_left or isinstance(error, asyncio.CancelledError)
                # Also where its end fails, for example at a terminal that is closed.
                if received:
                    raise Terminated(received[0]) from None
                raise

    return asyncio.run(run())


def run_until_killed(work: Coroutine[object, object, _Answer]) -> _Answer:
    """Result of the work, in a new event loop. Ctrl-C, SIGTERM and SIGHUP end the process at once:
    for work that leaves nothing behind.
    """
    for number in (signal.SIGINT, *_ENDING):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    return asyncio.run(work)


class _Threads(ThreadPoolExecutor):
    """The threads of one loop. When they `are_left`, the end of the loop does not wait for them."""

    are_left = False

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work, and wait for the present work unless it was left."""
        super().shutdown(wait and not self.are_left, cancel_futures=cancel_futures)


def raise_received(error: BaseException) -> None:
    """Raise the Terminated during which the error occurred, if it did."""
    before: BaseException | None = error
    while before is not None:
        if isinstance(before, Terminated):
            raise before
        before = before.__context__


def leave(left: SystemExit) -> NoReturn:
    """End this process as the exception says, by the signal for Terminated. After an interruption
    threads that still work are not waited for.
    """
    if isinstance(left, Terminated):
        signal.signal(left.number, signal.SIG_DFL)
        os.kill(os.getpid(), left.number)
    if left.code != INTERRUPTED:
        raise left
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(INTERRUPTED)


@asynccontextmanager
async def interruptible(
    work: str, cancel: Callable[[], None], *, see: str
) -> AsyncGenerator[Callable[[], bool]]:
    """Inside, the first Ctrl-C (or SIGTERM) calls `cancel`, the second exits. Yields a function
    that returns whether there was one.

    `work`: what is cancelled; `see`: the command that shows what becomes of it.
    """
    loop, count = asyncio.get_running_loop(), 0
    task = asyncio.current_task()
    assert task is not None

    def interrupt() -> None:
        nonlocal count
        count += 1
        if count == 1:
            display.warn(f"cancelling {work}; press Ctrl-C again to leave without waiting")
            cancel()
        else:
            # Only the second Ctrl-C leaves: by then the server knows of the cancellation.
            task.cancel()

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    for number in numbers:
        loop.add_signal_handler(number, interrupt)
    try:
        yield lambda: count > 0
    except asyncio.CancelledError:
        # Cancelled by something else.
        if count < 2:
            raise
        display.warn(f"left {work}; see: {see}")
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        for number, handler in zip(numbers, before, strict=True):
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Generator[None]:
    """Inside, the handler has SIGTERM and SIGHUP, unless they are ignored or this is not the main
    thread, which alone may set handlers.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in _ENDING}
    numbers = [number for number, old in before.items() if old is not signal.SIG_IGN]
    for number in numbers:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])
