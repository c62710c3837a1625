"""Ctrl-C of commands that have submitted something: the first one cancels, the second leaves."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import click

from lading.cli import display
from lading.cli.exit_codes import INTERRUPTED


@asynccontextmanager
async def interruptible(
    uuid: str, cancel: Callable[[], None]
) -> AsyncGenerator[Callable[[], bool]]:
    """Inside, the first Ctrl-C (or SIGTERM) calls `cancel`, the second exits. Yields a function
    that returns whether there was one.
    """
    loop, count = asyncio.get_running_loop(), 0
    task = asyncio.current_task()
    assert task is not None

    def interrupt() -> None:
        nonlocal count
        count += 1
        if count == 1:
            display.note(f"cancelling {uuid}; press Ctrl-C again to leave without waiting")
            cancel()
        else:
            # Only the second Ctrl-C leaves: by then the server knows of the cancellation.
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        yield lambda: count > 0
    except asyncio.CancelledError:
        # Cancelled by something else.
        if count < 2:
            raise
        display.note(f"left {uuid}; see: lading request show {uuid}")
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
