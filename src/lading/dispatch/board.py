"""Scheduling statuses: tells the API why containers wait, at most once in an interval and only what changed.

The API keeps them in memory, so all are sent again after the connection to it was lost. An empty sentence takes a
status back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from lading.client.api import ApiClient
from lading.core.errors import LadingError
from lading.telemetry import event

_logger = logging.getLogger("lading.dispatch")


class Board:
    """Publishes what `look` returns (sentences by container uuid) when told that it may have changed."""

    def __init__(self, client: ApiClient, look: Callable[[], Mapping[str, str]], *, interval: float) -> None:
        self._client = client
        self._look = look
        self._interval = interval
        self._posted: dict[str, str] = {}
        self._stale = asyncio.Event()

    def mark(self) -> None:
        """The statuses may have changed."""
        self._stale.set()

    def repeat(self) -> None:
        """The API may have lost what it was told."""
        self._posted.clear()
        self._stale.set()

    async def publish(self) -> None:
        """Post changes for ever."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                await self.post()
            except LadingError as error:
                event(_logger, "statuses not posted", why=error)
                self._stale.set()
            await asyncio.sleep(self._interval)

    async def post(self) -> None:
        """Post what changed since the last time, if anything. Raises what the client raises."""
        current = dict(self._look())
        changes = {uuid: text for uuid, text in current.items() if self._posted.get(uuid) != text}
        changes |= {uuid: "" for uuid in self._posted if uuid not in current}
        if changes:
            await self._client.request("POST", "dispatch/statuses", body={"items": changes})
            self._posted = current
