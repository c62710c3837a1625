"""What takes long before the command starts, told to those who wait: `runtime_status.activity` of
the Locked container.

Nothing is told of what is over soon; then a container costs no further call.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any

from lading.core.errors import LadingError

PATIENCE = 2.0
"""Seconds before anything is told, and between two tellings."""
_LONGEST = 10.0


class Activity:
    """Tells what is being done by calling `tell` with a phrase; what that raises is passed over: it
    is but for show.
    """

    def __init__(
        self, tell: Callable[[str], Awaitable[None]], *, patience: float = PATIENCE
    ) -> None:
        self._tell = tell
        self._patience = patience
        self._doing: dict[str, None] = {}
        self._over = asyncio.Event()
        self.told = ""

    async def doing(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; meanwhile `what` is being done."""
        self._doing[what] = None
        try:
            await work
        finally:
            del self._doing[what]

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Inside, it is told. What is being told at the end is told first, so that nothing is told
        afterwards.
        """
        task = asyncio.create_task(self._run(), name="activity")
        try:
            yield
        finally:
            self._over.set()
            await task

    async def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await self._over.wait()
            text = " and ".join(self._doing)
            if text and text != self.told and not self._over.is_set():
                with contextlib.suppress(LadingError, TimeoutError):
                    async with asyncio.timeout(_LONGEST):
                        self.told = text
                        await self._tell(text)
