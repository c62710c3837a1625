"""Reports steps that take long before the command starts: `runtime_status.activity` of the Locked
container.

Short steps are not reported, so that an ordinary container costs no further call.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any

from lading.core.errors import LadingError

PATIENCE = 2.0
"""Seconds before the first report, and between two reports."""
# Seconds for one report; the server may be away, and the container need not wait for it.
_LONGEST = 10.0


class Activity:
    """Reports the current steps by calling `tell` with a phrase. Errors of `tell` are ignored,
    since the report is only informative.
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
        """Await `work`; meanwhile `what` is reported as the current step."""
        self._doing[what] = None
        try:
            await work
        finally:
            del self._doing[what]

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Report the current steps inside the context. At its end a report in progress is completed
        first, so that none follows.
        """
        task = asyncio.create_task(self._run(), name="activity")
        try:
            yield
        finally:
            self._over.set()
            await task

    async def _run(self) -> None:
        while not self._over.is_set():
            # Not over within the usual time: the activity is reported.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await self._over.wait()
            # Inputs and image are prepared at the same time.
            text = " and ".join(self._doing)
            if text and text != self.told and not self._over.is_set():
                # A status is only information; the next one may succeed.
                with contextlib.suppress(LadingError, TimeoutError):
                    async with asyncio.timeout(_LONGEST):
                        self.told = text
                        await self._tell(text)
