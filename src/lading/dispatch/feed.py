"""Keeps the queue up to date: by events, by fetching what they point at, and by a slow look at everything.

- An event says which container changed. What it does not tell itself is fetched, many containers with one request;
  while a request is under way, further ones gather for the next, so that no event waits for a timer.
- A full look (own containers by pages, then the waiting ones of highest priority) comes at the start, whenever events
  may have been missed, and every `poll_interval` (architecture, "One request, end to end", step 2).
- While the API cannot be reached, everything is kept and tried again after a pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Callable, Mapping
from itertools import islice

from lading.client.api import ApiClient
from lading.client.events import Event, Reconnected
from lading.core.errors import LadingError
from lading.dispatch.queue import Queue
from lading.dispatch.settings import Settings
from lading.telemetry import event

KIND = "arvados#container"
_BATCH = 200
_logger = logging.getLogger("lading.dispatch")


class Feed:
    """Three endless tasks (`follow`, `fetch`, `look`) that share the queue; wakes the loop when it changed."""

    def __init__(
        self,
        client: ApiClient,
        queue: Queue,
        *,
        token: str,
        settings: Settings,
        wake: asyncio.Event,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._queue = queue
        self._token = token
        self._settings = settings
        self._wake = wake
        self._clock = clock
        self._pending: dict[str, None] = {}
        self._under_way: dict[str, int] = {}
        self._wanted = asyncio.Event()
        self._look = asyncio.Event()
        self._more = False
        self.loaded = asyncio.Event()
        """Set once everything has been looked at for the first time."""

    def reread(self, uuid: str, *, after: int = 0) -> None:
        """Fetch this record soon, unless a fetch that began after version `after` is under way."""
        if self._under_way.get(uuid, -1) <= after:
            self._pending[uuid] = None
            self._wanted.set()

    def refill(self) -> None:
        """Look again when the last look left waiting containers out and those it found are running low."""
        if self._more and len(self._queue.waiting) < self._settings.window // 2:
            self._more = False
            self._look.set()

    async def follow(self, events: AsyncIterable[Event | Reconnected], *, on_gap: Callable[[], None]) -> None:
        """Learn from events for ever; call `on_gap` when some may have been missed."""
        async for item in events:
            if isinstance(item, Event):
                self._notice(item)
            else:
                self._look.set()
                on_gap()

    async def fetch(self) -> None:
        """Fetch pending records for ever."""
        pause = self._settings.retry_first
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                while self._pending:
                    await self._fetch_batch()
                pause = self._settings.retry_first
            except LadingError as error:
                event(_logger, "records not fetched", why=error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._settings.retry_longest)
                self._wanted.set()

    async def look(self) -> None:
        """Look at everything for ever: now, when asked, and every `poll_interval`."""
        pause = self._settings.retry_first
        while True:
            self._look.clear()
            try:
                await self.load()
                pause = self._settings.retry_first
            except LadingError as error:
                event(_logger, "queue not read", why=error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._settings.retry_longest)
                continue
            try:
                async with asyncio.timeout(self._settings.poll_interval):
                    await self._look.wait()
            except TimeoutError:
                continue

    async def load(self) -> None:
        """Look at everything once. Raises what the client raises."""
        with self._queue.fetch() as ticket:
            known, found = self._queue.uuids(), set[str]()
            async for page in self._client.pages("containers", filters=self._mine(), select=self._queue.fields):
                self._queue.merge(page, ticket=ticket, now=self._clock())
                found |= {item["uuid"] for item in page}
            waiting = await self._client.list(
                "containers",
                filters=[["state", "=", "Queued"], ["priority", ">", 0]],
                order=["priority desc", "created_at asc"],
                select=self._queue.fields,
                limit=self._settings.window,
            )
            self._queue.merge(waiting, ticket=ticket, now=self._clock())
            found |= {item["uuid"] for item in waiting}
        self._more = len(waiting) >= self._settings.window
        for uuid in known - found:
            self.reread(uuid)
        self.loaded.set()
        self._wake.set()

    def _mine(self) -> list[list[object]]:
        return [["locked_by_uuid", "=", self._token], ["state", "in", ["Locked", "Running"]]]

    def _notice(self, item: Event) -> None:
        if item.object_kind != KIND:
            return
        old, new = _state(item.properties, "old_attributes"), _state(item.properties, "new_attributes")
        if self._queue.advance(item.object_uuid, old=old, new=new):
            self._wake.set()
        else:
            self.reread(item.object_uuid, after=self._queue.ticket())

    async def _fetch_batch(self) -> None:
        batch = list(islice(self._pending, _BATCH))
        for uuid in batch:
            del self._pending[uuid]
        try:
            with self._queue.fetch() as ticket:
                self._under_way = dict.fromkeys(batch, ticket)
                items = await self._client.list(
                    "containers", filters=[["uuid", "in", batch]], select=self._queue.fields, limit=len(batch)
                )
                self._queue.merge(items, ticket=ticket, now=self._clock(), asked=batch)
        except LadingError:
            self._pending |= dict.fromkeys(batch)
            raise
        finally:
            self._under_way = {}
        self._wake.set()


def _state(properties: Mapping[str, object], which: str) -> str:
    attributes = properties.get(which)
    state = attributes.get("state") if isinstance(attributes, Mapping) else None
    return str(state or "")
