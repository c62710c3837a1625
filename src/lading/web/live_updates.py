"""Changes of records for open pages.

All open pages of a session share one websocket to the API, which sends what the reader may see.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Final

from lading.client.api import ApiClient
from lading.client.record_events import RecordEvent, events
from lading.core.errors import LadingError, Unavailable
from lading.process.concurrency import cancel_all

_MOST_PAGES: Final = 50
"""Open pages of one session."""
_KINDS: Final = ("arvados#containerRequest", "arvados#container", "arvados#group")
NEW: Final = "new"
RUNS: Final = "runs"
"""The subject of pages about runs: any request, container or project."""
_CHANGED: Final = "changed"


class OpenPage:
    """Subjects of updates of one open page: requests with their containers, and new requests; with
    `runs` all requests, containers and projects, which runs consist of.
    """

    def __init__(self, requests: frozenset[str], *, new: bool, runs: bool = False) -> None:
        self._requests = requests
        self._new = new
        self.runs = runs
        # Request -> its container, as far as events have told.
        self._containers: dict[str, str] = {}
        self._due: set[str] = set()
        self._woken = asyncio.Event()
        self._is_over = False

    def know(self, request: str, container: str | None) -> None:
        """Note the present container of a request."""
        if request in self._requests and container:
            self._containers[request] = container

    def note(self, event: RecordEvent) -> None:
        """Take a change into account."""
        uuid = event.object_uuid
        if self.runs:
            self._wake(_CHANGED)
        elif uuid in self._requests:
            new = event.properties.get("new_attributes") or {}
            self.know(uuid, new.get("container_uuid"))
            self._wake(_CHANGED)
        elif uuid in self._containers.values():
            self._wake(_CHANGED)
        elif self._new and event.event_type == "create" and "-xvhdp-" in uuid:
            self._wake(NEW)

    def look_again(self) -> None:
        """Events may have been missed."""
        self._wake(_CHANGED)

    def end(self) -> None:
        """End the updates."""
        self._is_over = True
        self._woken.set()

    async def next_events(self, patience: float) -> list[str] | None:
        """The names of the next events; none after `patience` seconds; None at the end."""
        try:
            async with asyncio.timeout(patience):
                await self._woken.wait()
        except TimeoutError:
            return []
        if self._is_over:
            return None
        self._woken.clear()
        due, self._due = sorted(self._due), set()
        return due

    def _wake(self, name: str) -> None:
        self._due.add(name)
        self._woken.set()


class LiveUpdates:
    """Passes changes of records on to open pages: one connection to the API for each token."""

    def __init__(self) -> None:
        self._pages: dict[str, set[OpenPage]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def open(self, api: ApiClient, page: OpenPage) -> AsyncGenerator[None]:
        """Tell `page` what changes, with the rights of `api`. Raises Unavailable beyond the limit
        of open pages.
        """
        token = api.token
        pages = self._pages.setdefault(token, set())
        if len(pages) >= _MOST_PAGES:
            raise Unavailable(f"{_MOST_PAGES} pages of this login are open; close some")
        pages.add(page)
        if token not in self._tasks:
            self._tasks[token] = asyncio.create_task(self._feed(api, pages), name="live updates")
        else:
            # The connection says only at its beginning that changes may have been missed: what
            # happened since this page was drawn was told to the other pages alone.
            page.look_again()
        try:
            yield
        finally:
            pages.discard(page)
            if not pages:
                self._pages.pop(token, None)
                task = self._tasks.pop(token, None)
                if task is not None:
                    await cancel_all(task)

    async def _feed(self, api: ApiClient, pages: set[OpenPage]) -> None:
        try:
            async with aclosing(events(api, kinds=_KINDS)) as changes:
                async for item in changes:
                    for page in pages:
                        if isinstance(item, RecordEvent):
                            page.note(item)
                        else:
                            page.look_again()
        except LadingError:
            # The token has ended, or there is no websocket: the pages look by themselves.
            pass
        finally:
            for page in pages:
                page.end()
