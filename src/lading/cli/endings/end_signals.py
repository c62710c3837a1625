"""Signals that end a command, and the end of its process: SIGTERM, and SIGHUP when its terminal is
closed.

After SIGTERM and SIGHUP the process ends by the same signal, which shells show as 143 and 129.
`interruption` has commands with an event loop; this module is imported without one, as by
`lading --help`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

from lading.cli.exit_codes import INTERRUPTED

ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""The signals; Windows has no SIGHUP."""


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

    with handled(end):
        yield


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


@contextmanager
def handled(handler: Callable[[int, FrameType | None], None]) -> Generator[None]:
    """Inside, the handler has SIGTERM and SIGHUP, unless they are ignored or this is not the main
    thread, which alone may set handlers.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in ENDING}
    numbers = [number for number, old in before.items() if old is not signal.SIG_IGN]
    for number in numbers:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])
