"""Keeps the queue up to date: by events, by fetching changed records, and by a slow full list.

- An event names a container that changed. Attributes that it lacks are fetched, many containers
with one request; while a request is under way, further ones gather for the next, so that no event
waits for a timer. - A full list has the own containers by pages, then the waiting containers of
highest priority, as many as `core.scheduling.planning` determines. It is read at the start,
whenever events may have been missed, every `poll_interval`, and when most containers of the last
list have their place. Before the first one the head of the queue is read. - While the API cannot be
reached, everything is kept and tried again after a pause. A missing answer would delay all later
ones: a request is repeated after `read_timeout`.

Source: docs/spec/dispatch, section Queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

from lading.client.api import ApiClient
from lading.client.record_events import Reconnected, RecordEvent
from lading.core.errors import LadingError, Unavailable
from lading.core.scheduling.planning import TrackedContainer, Window, window_of
from lading.dispatch.queue import Queue, place
from lading.dispatch.settings import DispatchSettings
from lading.process.telemetry import event

KIND = "arvados#container"
# Containers in one fetch: their uuids fill a request of some 6 KB.
_BATCH = 200
# Containers of the first, short look: a page, which the API gives in one answer.
_SOON = 100
_ORDER = ("priority desc", "created_at asc", "uuid asc")
_QUEUED = (("state", "=", "Queued"), ("priority", ">", 0))
_WORKFLOWS = ("scheduling_parameters.supervisor", "=", True)
_logger = logging.getLogger("lading.dispatch")


class QueueSync:
    """Three endless tasks (`follow`, `fetch`, `look`) that share the queue; wakes the loop when it
    changed.
    """

    def __init__(
        self,
        client: ApiClient,
        queue: Queue,
        *,
        token: str,
        settings: DispatchSettings,
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
        self._requested = asyncio.Event()
        self.look_due = asyncio.Event()
        """Set when a look is due before its interval is over."""
        self._refilling = False
        self._extra = self._extra_workflows = 0
        # Whether the next full look asks for workflow runners: not while all are known by events.
        self._runners_due = True
        self.loaded = asyncio.Event()
        """Set once all containers of this dispatcher, and the first waiting ones, are known."""

    def reread(self, uuid: str, *, after: int = 0) -> None:
        """Fetch this record soon, unless a fetch that began after version `after` is under way."""
        # A fetch that began later has the state that the caller wants already.
        if self._under_way.get(uuid, -1) <= after:
            self._pending[uuid] = None
            self._requested.set()

    @property
    def pending(self) -> tuple[str, ...]:
        """The uuids of the records that `fetch` reads next."""
        return tuple(self._pending)

    @property
    def more(self) -> bool:
        """Whether the last look left waiting containers out."""
        return (
            self._queue.window.horizon is not None
            or self._queue.workflow_window.horizon is not None
        )

    def refill(self, aside: Collection[str]) -> None:
        """Look again when the last look left waiting containers out, and few of the found ones
        still wait.

        `aside`: the containers that need no place in this pass.
        """
        queue, size = self._queue, self._settings.window
        entries, runners = queue.entries(), queue.workflow_runners()
        left, left_runners = _left(entries, aside), _left(runners, aside)
        low = queue.window.is_low(left, size=size)
        # One look at a time: `load` clears the mark, else each pass of the loop would ask for
        # another one.
        low_runners = queue.workflow_window.is_low(left_runners, size=size)
        if (low or low_runners) and not self._refilling:
            unsized = sum(not record.sized for record in queue.waiting.values())
            # The next look asks for so many more than the window as are known not to count in it.
            self._extra_workflows = unsized + len(runners) - left_runners
            self._extra = unsized + len(runners) + len(entries) - left
            self._refilling = True
            self.look_due.set()

    async def follow(
        self, events: AsyncIterable[RecordEvent | Reconnected], *, on_gap: Callable[[], None]
    ) -> None:
        """Learn from events for ever; call `on_gap` when some may have been missed."""
        async for item in events:
            if isinstance(item, RecordEvent):
                self._notice(item)
            else:
                self.look_due.set()
                self._runners_due = True
                # The connection was lost for a while. Missed events are not repeated, so the whole
                # queue is read.
                on_gap()

    async def fetch(self) -> None:
        """Fetch pending records for ever."""
        pause = self._settings.retry_first
        while True:
            await self._requested.wait()
            self._requested.clear()
            try:
                # Records named during a fetch are fetched by the next turn of this loop, without a
                # timer.
                while self._pending:
                    await self._fetch_batch()
                pause = self._settings.retry_first
            except LadingError as error:
                event(_logger, "records not fetched", why=error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._settings.retry_longest)
                self._requested.set()

    async def look(self) -> None:
        """Look at everything for ever: now, when asked, and every `poll_interval`."""
        pause = self._settings.retry_first
        while True:
            self.look_due.clear()
            try:
                # The first time a short look is enough where it shows all; else the full one
                # follows at once.
                if self.loaded.is_set() or not await self.begin():
                    await self.load()
                pause = self._settings.retry_first
            except LadingError as error:
                event(_logger, "queue not read", why=error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._settings.retry_longest)
                continue
            try:
                async with asyncio.timeout(self._settings.poll_interval):
                    await self.look_due.wait()
            except TimeoutError:
                # The interval is over without a request for a look.
                self._runners_due = True
                continue

    async def begin(self) -> bool:
        """Before the first full look, a short one: own containers, and as many as start at first;
        whether it is all.

        With a long queue the first containers start before all that a full look shows is read.
        """
        async with _in_time(self._settings.read_timeout):
            await self._load(min(_SOON, self._settings.window))
        self.loaded.set()
        self._wake.set()
        return not self.more

    async def load(self) -> None:
        """Read the full list once. Raises the errors of the client, and Unavailable when it takes
        too long.
        """
        async with _in_time(self._settings.read_timeout):
            await self._load()
        self._refilling = False
        self.loaded.set()
        self._wake.set()

    async def _load(self, most: int = 0) -> None:
        """Read this dispatcher's containers and the window. `most`: number of waiting containers to
        read instead of the window.
        """
        with self._queue.fetch() as ticket:
            # Before the first request: what comes meanwhile by an event is not missing in the
            # answer.
            known_uuids, listed = self._queue.uuids(), set[str]()
            async for page in self._client.pages(
                "containers", filters=self._mine(), select=self._queue.fields
            ):
                self._queue.merge(page, ticket=ticket, now=self._clock())
                listed |= {item["uuid"] for item in page}
            size = most or self._settings.window + self._extra
            waiting, window = await self._first(_QUEUED, size)
            knows_runners = not self._runners_due and self._queue.workflow_window.horizon is None
            apart: Sequence[Any] = ()
            workflows = window if most else Window()
            if not most and not knows_runners:
                apart, workflows = await self._first_workflows(window)
            # Before `merge`, which drops waiting containers that the window does not show.
            self._queue.show(window, workflows=workflows)
            self._queue.merge([*waiting, *apart], ticket=ticket, now=self._clock())
            listed |= {item["uuid"] for item in (*waiting, *apart)}
        # Known ones that no list has were locked by another dispatcher, have ended, or are further
        # back now: each is asked for by its uuid.
        for uuid in known_uuids - listed:
            record = self._queue.waiting.get(uuid)
            by_events = knows_runners and record is not None and record.runs_workflow
            if not by_events and not self._queue.hides(uuid):
                self.reread(uuid)

    async def _first_workflows(self, window: Window) -> tuple[Sequence[Any], Window]:
        """Workflow runners beyond the window of a look; nothing is asked for when it has shown all
        containers.
        """
        # Before the call: events that are missed meanwhile make the next look ask again.
        self._runners_due = False
        if window.horizon is None:
            return (), Window()
        try:
            return await self._first(
                (*_QUEUED, _WORKFLOWS), self._settings.window + self._extra_workflows
            )
        except BaseException:
            self._runners_due = True
            raise

    async def _first(self, filters: Sequence[Any], most: int) -> tuple[list[Any], Window]:
        """The first containers that pass the filters, and the window that they fill."""
        containers: list[Any] = []
        while len(containers) < most:
            # The server gives fewer at a time than it is asked for where it is so configured.
            page = await self._client.list(
                "containers", filters=filters, order=_ORDER, select=self._queue.fields,
                limit=most - len(containers), offset=len(containers),
            )  # fmt: skip
            if not page:
                break
            containers += page
        # The order of `_ORDER` is that of `place`, so that the last one is the horizon.
        return containers, window_of([place(item) for item in containers], most=most)

    def _mine(self) -> list[list[object]]:
        return [["locked_by_uuid", "=", self._token], ["state", "in", ["Locked", "Running"]]]

    def _notice(self, item: RecordEvent) -> None:
        if item.object_kind != KIND:
            return
        old = _attribute(item.properties, "old_attributes", "state")
        new = _attribute(item.properties, "new_attributes", "state")
        by = _attribute(item.properties, "new_attributes", "locked_by_uuid")
        is_known = self._queue.get(item.object_uuid) is not None
        if item.record and self._queue.hear(item.record, now=self._clock()):
            self._wake.set()
            return
        # A change of the state alone, of a known container, needs no request.
        if self._queue.advance(item.object_uuid, old=old, new=new, locked_by=by):
            # Most events are about containers of other dispatchers.
            if is_known:
                self._wake.set()
        else:
            self.reread(item.object_uuid, after=self._queue.ticket())

    async def _read(self, uuids: Sequence[str]) -> list[Any]:
        """The containers of these uuids that there are. The server may give fewer at a time than it
        is asked for.
        """
        by_uuid: dict[str, Any] = {}
        while missing := [uuid for uuid in uuids if uuid not in by_uuid]:
            page = await self._client.list(
                "containers",
                filters=[["uuid", "in", missing]],
                select=self._queue.fields,
                limit=len(missing),
            )
            if not page:
                break
            by_uuid |= {item["uuid"]: item for item in page}
        return list(by_uuid.values())

    async def _fetch_batch(self) -> None:
        batch = list(islice(self._pending, _BATCH))
        for uuid in batch:
            del self._pending[uuid]
        try:
            with self._queue.fetch() as ticket:
                self._under_way = dict.fromkeys(batch, ticket)
                async with _in_time(self._settings.read_timeout):
                    items = await self._read(batch)
                self._queue.merge(items, ticket=ticket, now=self._clock(), asked=batch)
        except LadingError:
            # Behind those that came meanwhile: a batch that the server refuses must not stop all
            # others.
            self._pending |= dict.fromkeys(batch)
            raise
        finally:
            self._under_way = {}
        self._wake.set()


@asynccontextmanager
async def _in_time(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unavailable("the API has not answered in time") from error


def _left(entries: Collection[TrackedContainer], aside: Collection[str]) -> int:
    return sum(entry.uuid not in aside for entry in entries)


def _attribute(properties: Mapping[str, object], which: str, name: str) -> str:
    attributes = properties.get(which)
    value = attributes.get(name) if isinstance(attributes, Mapping) else None
    return str(value or "")
