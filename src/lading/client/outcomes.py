"""Results of container requests, and the wait for them.

The websocket tells which requests have ended, and one list call reads hundreds of them; without a
websocket, the server is polled, at least once a second.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from lading.core.containers.container import start_refusal
from lading.core.errors import LadingError, NotFound

# The client is imported when it is used: help and completion need none.
if TYPE_CHECKING:
    import asyncio

    from lading.client.api import ApiClient, Record
    from lading.client.record_events import RecordEvent

_SHORTEST, _LONGEST, _GROWTH = 0.05, 1.0, 1.6
_SPACING = 0.5
"""Seconds between two looks at some of the requests: few list calls a second."""
_RELIST = 10.0
"""Seconds between two looks at all requests while there is a connection for events."""
_KIND = "arvados#containerRequest"
_PAGE = 500
"""Requests of one list call: with 1,000 uuids in a filter the address of the call grows long."""
_SHOWN = ("uuid", "name", "state", "priority", "container_uuid", "output_uuid", "log_uuid")
_SHOWN_OF_CONTAINER = ("uuid", "state", "exit_code", "runtime_status", "output")


_TIMED_OUT, _NO_RESULT = 124, 125


class RequestOutcome(msgspec.Struct, frozen=True):
    """A request, and its container, if it has one."""

    request: Record
    container: Record | None

    @property
    def exit_code(self) -> int:
        """The exit code of the command. Without one: 124 after its max_run_time, 127 if it was not
        found, 126 if it cannot be run, else 125.
        """
        container = self.container
        if container is None:
            return _NO_RESULT
        if container["state"] != "Complete" or container["exit_code"] is None:
            return _code_of(container)
        code = int(container["exit_code"])
        # Other values cannot be exit codes of a process.
        return code if 0 <= code < 256 else 1

    @property
    def fault(self) -> str:
        """One sentence with the reason why the request has not succeeded; "" after success."""
        container = self.container
        if container is None:
            return f"it never ran (see: lading request why {self.request['uuid']})"
        if container["state"] != "Complete":
            return reason(container)
        return f"exit code {container['exit_code']}" if self.exit_code else ""


def _code_of(container: Record) -> int:
    """The exit code for a container without one, as env(1) and timeout(1) give them."""
    status = container.get("runtime_status") or {}
    if status.get("failure") == "timeout":
        return _TIMED_OUT
    refusal = start_refusal(container)
    return refusal.exit_code if refusal else _NO_RESULT


def reason(container: Record) -> str:
    """The reason of a container's cancellation, in one sentence."""
    status = container.get("runtime_status") or {}
    sentence = str(status.get("error") or "it was cancelled")
    return sentence.removeprefix(f"{container['uuid']}: ").rstrip(".")


def warnings(container: Record) -> list[str]:
    """The warnings about a container, a line each: a sentence, and the entries that it counts, such
    as those of its output that could not be saved.
    """
    status = container.get("runtime_status") or {}
    sentence = str(status.get("warning") or "")
    entries = str(status.get("warningDetail") or "").splitlines()
    # The sentence has the first entry as its example.
    return [sentence.partition(", such as: ")[0], *entries] if entries else sentence.splitlines()


async def wait_for_all(
    api: ApiClient, uuids: Sequence[str], progress: Callable[[int, int], None] | None = None
) -> list[RequestOutcome]:
    """Wait until all requests are Final; their outcomes, in the order of `uuids`.

    `progress` takes the number of ended requests, and of all. Raises NotFound for a request that
    was deleted, and the errors of the API.
    """
    ended: dict[str, RequestOutcome] = {}
    total = len(set(uuids))
    async with watch_ends(api, uuids) as watch:
        while len(ended) < total:
            look = await watch.look()
            if look.deleted:
                raise NotFound(f"{look.deleted[0]}: was deleted")
            ended |= {str(outcome.request["uuid"]): outcome for outcome in look.ended}
            if progress is not None:
                progress(len(ended), total)
    return [ended[uuid] for uuid in uuids]


class RequestEnds(msgspec.Struct, frozen=True):
    """The requests that ended, and that were deleted, since the last look."""

    ended: list[RequestOutcome]
    deleted: list[str]


class EndWatch:
    """Finds the ends of requests; `watch_ends` opens it.

    All requests are listed at first. If some have not ended then, the websocket names those that
    have, and only these are listed: at once if no other request is waited for, else twice a second
    at most. All of them are listed again after each connection, since events may have been lost
    before it, and every few seconds, for a token that may list requests but gets no events about
    them. Without a websocket all are listed at least once a second.
    """

    def __init__(self, api: ApiClient) -> None:
        import asyncio

        from lading.client.retry import Outage

        self._api = api
        self._waiting: set[str] = set()
        self._due: set[str] = set()
        """Requests that the next look lists."""
        self._woken = asyncio.Event()
        self._clock = asyncio.get_running_loop().time
        self._looked_at = -math.inf
        self._pause = _SHORTEST
        self._is_connected = False
        self._listener: asyncio.Task[None] | None = None
        self._outage = Outage()

    def add(self, uuids: Iterable[str]) -> None:
        """Wait for these, too."""
        new = set(uuids) - self._waiting
        self._waiting |= new
        self._become_due(new)

    async def gets_more(self, seconds: float) -> bool:
        """Wait until a request is waited for, at most so long; whether one is."""
        import asyncio

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._waiting:
                    self._woken.clear()
                    await self._woken.wait()
        return bool(self._waiting)

    async def look(self) -> RequestEnds:
        """Wait until some may have ended, and list these; none while the server is started again.
        Raises the errors of the API.
        """
        await self._until_due()
        due = sorted(self._due)
        self._due.clear()
        self._looked_at = self._clock()
        ends = RequestEnds([], [])
        try:
            for start in range(0, len(due), _PAGE):
                await _add_to(ends, self._api, due[start : start + _PAGE])
        except LadingError as error:
            self._outage.bear(error)
            # All are listed again: by the next connection for events, or after a pause.
            self._pause = min(_LONGEST, self._pause * _GROWTH)
            return RequestEnds([], [])
        self._outage.end()
        self._waiting -= {outcome.request["uuid"] for outcome in ends.ended} | {*ends.deleted}
        # Their events may have come while they were listed: each end is reported once.
        self._due &= self._waiting
        self._pause = _SPACING if ends.ended else min(_LONGEST, self._pause * _GROWTH)
        return ends

    async def close(self) -> None:
        """End the connection for events."""
        import asyncio

        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)

    async def _listen(self) -> None:
        """Take the events of the websocket, until it is refused."""
        from lading.client.record_events import RecordEvent, events

        try:
            async with aclosing(events(self._api, kinds=[_KIND])) as heard:
                async for event in heard:
                    if not isinstance(event, RecordEvent):
                        self._is_connected = True
                        self._become_due(self._waiting)
                    elif _may_be_an_end(event) and event.object_uuid in self._waiting:
                        self._become_due({event.object_uuid})
        except LadingError:
            # The server has no websocket: the polls are enough.
            self._is_connected = False

    def _become_due(self, uuids: set[str]) -> None:
        self._due |= uuids
        if uuids:
            self._woken.set()

    async def _until_due(self) -> None:
        import asyncio

        # Nothing else is waited for: there is no reason to wait for further ends.
        while not (self._due and self._due >= self._waiting):
            pause = _RELIST if self._is_connected else self._pause
            left = self._looked_at + (_SPACING if self._due else pause) - self._clock()
            if left <= 0 and self._waiting:
                self._due = self._due or set(self._waiting)
                return
            if self._listener is None:
                self._listener = asyncio.create_task(self._listen(), name="events")
            self._woken.clear()
            # Its end is the time of the next look.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left if self._waiting else None):
                    await self._woken.wait()


@asynccontextmanager
async def watch_ends(api: ApiClient, uuids: Iterable[str]) -> AsyncGenerator[EndWatch]:
    """Watch for the ends of requests. The connection for events is opened by the first wait."""
    watch = EndWatch(api)
    watch.add(uuids)
    try:
        yield watch
    finally:
        await watch.close()


def _may_be_an_end(event: RecordEvent) -> bool:
    new = event.properties.get("new_attributes") or {}
    return event.event_type == "delete" or new.get("state", "Final") == "Final"


@asynccontextmanager
async def changes(api: ApiClient) -> AsyncGenerator[asyncio.Event]:
    """An event that is set with each change that the websocket reports."""
    import asyncio

    from lading.client.record_events import events

    changed = asyncio.Event()

    async def listen() -> None:
        try:
            async with aclosing(events(api)) as heard:
                async for _ in heard:
                    changed.set()
        except LadingError:
            # The server has no websocket: the polls are enough.
            return

    listener = asyncio.create_task(listen(), name="events")
    try:
        yield changed
    finally:
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)


async def until_changed(changed: asyncio.Event, seconds: float) -> None:
    """Wait for a change, at most so long; several changes at a time are looked at together."""
    import asyncio

    from lading.process.concurrency import wait_at_most

    await wait_at_most(changed, seconds)
    if not changed.is_set():
        return
    await asyncio.sleep(_SHORTEST)
    changed.clear()


async def _add_to(ends: RequestEnds, api: ApiClient, uuids: Sequence[str]) -> None:
    rows = await api.list(
        "container_requests", filters=[["uuid", "in", uuids]], select=_SHOWN, limit=_PAGE
    )
    final = [row for row in rows if row["state"] == "Final"]
    containers = await _containers(api, (row["container_uuid"] for row in final))
    ends.ended.extend(
        RequestOutcome(row, containers.get(row["container_uuid"] or "")) for row in final
    )
    ends.deleted.extend(sorted({*uuids} - {row["uuid"] for row in rows}))


async def _containers(api: ApiClient, uuids: Iterable[str | None]) -> dict[str, Record]:
    wanted = sorted({uuid for uuid in uuids if uuid})
    if not wanted:
        return {}
    rows = await api.list(
        "containers", filters=[["uuid", "in", wanted]], select=_SHOWN_OF_CONTAINER, limit=_PAGE
    )
    return {row["uuid"]: row for row in rows}
