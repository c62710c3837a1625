"""Concurrent awaiting of several coroutines, none of which outlives the call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from lading.core.errors import LadingError

_Answer = TypeVar("_Answer")


class WorkCancelled(LadingError):
    """The work was cancelled because its result is not wanted any more."""


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Run all coroutines concurrently; when one fails, cancel the others and raise the first
    failure.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as failures:
        if task.cancelling() > before:
            # Python 3.11's TaskGroup cancels its own task and leaves the count of cancellations; no
            # later asyncio.timeout would raise TimeoutError.
            task.uncancel()
        raise failures.exceptions[0] from None


async def unless(
    stopping: Coroutine[Any, Any, object], work: Awaitable[_Answer], *, grace: float = 0.0
) -> _Answer:
    """Result of `work`, which is cancelled when `stopping` has ended and `grace` seconds have
    passed.

    Raises Interrupted then.
    """
    doing = asyncio.ensure_future(work)
    waiting: asyncio.Future[object] | None = None
    try:
        # Most work does not wait at all and ends within one turn of the loop; then `stopping` is
        # not started.
        await asyncio.sleep(0)
        if not doing.done():
            waiting = asyncio.ensure_future(stopping)
            await asyncio.wait((doing, waiting), return_when=asyncio.FIRST_COMPLETED)
        # `work` may be a call that the server has received already: it gets a moment to end.
        if not doing.done() and grace:
            await asyncio.wait((doing,), timeout=grace)
        if not doing.done():
            raise WorkCancelled("told to stop")
        return await doing
    finally:
        if waiting is None:
            # Never started: closing it avoids the warning about a coroutine that was never awaited.
            stopping.close()
        else:
            waiting.cancel()
        doing.cancel()
        # Both are awaited, so that neither runs on after this function.
        await asyncio.gather(doing, *([waiting] if waiting else []), return_exceptions=True)
