"""Several things at a time, none of which is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Do all of it at the same time; when one fails the others are cancelled, and the first failure is raised."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as failures:
        if task.cancelling() > before:
            # Python 3.11's group cancels its own task and leaves the count; with that, no later time-out would be told.
            task.uncancel()
        raise failures.exceptions[0] from None
