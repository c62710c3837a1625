"""A stream of events for each open page, which says that something has changed.

The events have no content: the page then fetches its part anew, with the usual checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from lading.core.ids import is_uuid
from lading.process.concurrency import cancel_all
from lading.web.live_updates import NEW, RUNS, OpenPage
from lading.web.visit import Visit

KEEP_ALIVE: Final = 20.0
"""Seconds without an event after which a comment is sent and the session is checked."""
_PAUSE: Final = 0.25
"""Seconds between two events of a page: many changes at a time are one event, and yet a row is
changed within half a second.
"""
_LONG_PAUSE: Final = 2.0
"""Seconds between two events of a page about runs, which each step of any run changes."""
# More than a page of 50 rows asks for, and few enough for one filter.
_MOST_TOPICS: Final = 60
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def stream(visit: Visit) -> Response:
    """The events of one page; `topics` are uuids of requests, `new` and `runs`."""
    names = visit.query("topics").split(",")
    uuids = frozenset([name for name in names if is_uuid(name)][:_MOST_TOPICS])
    page = OpenPage(uuids, new=NEW in names, runs=RUNS in names)
    if uuids:
        requests = await visit.api.list(
            "container_requests",
            filters=[["uuid", "in", sorted(uuids)]],
            select=("uuid", "container_uuid"),
            limit=_MOST_TOPICS,
        )
        for request in requests:
            page.know(request["uuid"], request["container_uuid"])
    return _EventStream(visit, page)


class _EventStream(StreamingResponse):
    """Sends the events until the browser leaves.

    Starlette's own way takes two tasks in a group, which is three kilobytes more for each page.
    """

    def __init__(self, visit: Visit, page: OpenPage) -> None:
        events = _events(visit, page)
        super().__init__(events, media_type="text/event-stream", headers=_HEADERS)
        self._events = events
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        watching = asyncio.create_task(self._watch(receive), name="reader of events")
        try:
            async with aclosing(self._events):
                await self.stream_response(send)
        finally:
            await cancel_all(watching)

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._page.end()


async def _events(visit: Visit, page: OpenPage) -> AsyncGenerator[bytes]:
    async with visit.services.live.open(visit.api, page):
        # Milliseconds after which a browser connects again.
        yield b"retry: 3000\n\n"
        while (names := await page.next_events(KEEP_ALIVE)) is not None:
            if not names:
                # A stream is no use of the session: an open page must not prolong it.
                if await visit.services.sessions.find(visit.secret, is_use=False) is None:
                    return
                yield b": nothing new\n\n"
                continue
            for name in names:
                # Browsers drop events without data.
                yield f"event: {name}\ndata: 1\n\n".encode()
            await asyncio.sleep(_LONG_PAUSE if page.runs else _PAUSE)
