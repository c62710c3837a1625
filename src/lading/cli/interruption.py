"""Ctrl-C, SIGTERM and SIGHUP for commands that work in an event loop.

A command that is ended removes its temporary files first. Ctrl-C gives exit code 130; `end_signals`
has the end by the others. Work that only reads or computes in a thread is not waited for.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from types import FrameType
from typing import TypeVar

import click

from lading.cli import display
from lading.cli.endings.end_signals import ENDING, Terminated, handled
from lading.cli.exit_codes import INTERRUPTED

_Answer = TypeVar("_Answer")


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

        with handled(end):
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
    for number in (signal.SIGINT, *ENDING):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    return asyncio.run(work)


class _Threads(ThreadPoolExecutor):
    """The threads of one loop. When they `are_left`, the end of the loop does not wait for them."""

    are_left = False

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work, and wait for the present work unless it was left."""
        super().shutdown(wait and not self.are_left, cancel_futures=cancel_futures)


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
        _hear(loop, number, interrupt)
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
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _hear(loop: asyncio.AbstractEventLoop, number: int, interrupt: Callable[[], None]) -> None:
    """Call a function in the loop at each signal."""
    try:
        loop.add_signal_handler(number, interrupt)
    except NotImplementedError:
        # The loops of Windows hear no signals.
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(interrupt))
