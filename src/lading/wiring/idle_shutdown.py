"""The end of a site that a command has started, after a time without work (`Local.IdleShutdown`).

Work is a container that runs or waits, a request that will have one, a transfer of a task, and a
call of a client: also one without an end, such as an open page, a shell, a mount or a listener for
events. Calls on the local socket do not count: they are those of the dispatcher and of supervisors.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

from lading.process.telemetry import event
from lading.store.containers import waiting
from lading.store.database import Database

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
WatchedApp = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]

_PART = 20
"""Looks in the idle time: the site ends this part of the time late, at most."""
_LONGEST = 60.0
"""Seconds between two looks, at most."""
_logger = logging.getLogger("lading.idle")


class ClientActivity:
    """The calls of clients: how many are open, and when the last one ended."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = clock()
        self._open = 0

    def watched(self, app: App) -> WatchedApp:
        """The application with its calls noted."""

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            self._open += 1
            try:
                await app(scope, receive, send)
            finally:
                self._open -= 1
                self.note()

        return call

    def note(self) -> None:
        """Note that there is work now."""
        self._last = self._clock()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last work; 0 while a call is open."""
        return 0.0 if self._open else self._clock() - self._last


async def end_when_idle(
    activity: ClientActivity,
    has_work: Callable[[], Awaitable[bool]],
    *,
    limit: float,
    end: Callable[[], None],
) -> None:
    """Call `end` once after `limit` seconds without calls of clients and without work."""
    while True:
        await asyncio.sleep(min(_LONGEST, limit / _PART))
        if await has_work():
            activity.note()
        if activity.idle_seconds >= limit:
            event(_logger, "site ends", idle_seconds=round(activity.idle_seconds))
            end()
            return


async def has_work(database: Database) -> bool:
    """Whether something runs, waits for its turn, or is transferred."""
    async with database.reading() as tx:
        return await waiting.has_work(tx)
