"""Several things at a time, none of which is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from lading.core.errors import LadingError

_Answer = TypeVar("_Answer")


class Interrupted(LadingError):
    """What was done was given up, as somebody wants no more of it."""


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Do all of it at the same time; when one fails the others are cancelled, and the first failure
    is raised.
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
            # Python 3.11's group cancels its own task and leaves the count; with that, no later
            # time-out would be told.
            task.uncancel()
        raise failures.exceptions[0] from None


async def unless(
    stopping: Coroutine[Any, Any, object], work: Awaitable[_Answer], *, grace: float = 0.0
) -> _Answer:
    """The answer of `work`, which is cancelled when `stopping` has ended and `grace` seconds have
    passed.

    Raises Interrupted then.
    """
    doing = asyncio.ensure_future(work)
    waiting: asyncio.Future[object] | None = None
    try:
        # Much of what might have to wait does not, and is over in one turn of the loop.
        await asyncio.sleep(0)
        if not doing.done():
            waiting = asyncio.ensure_future(stopping)
            await asyncio.wait((doing, waiting), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done() and grace:
            await asyncio.wait((doing,), timeout=grace)
        if not doing.done():
            raise Interrupted("told to stop")
        return await doing
    finally:
        if waiting is None:
            stopping.close()
        else:
            waiting.cancel()
        doing.cancel()
        await asyncio.gather(doing, *([waiting] if waiting else []), return_exceptions=True)
