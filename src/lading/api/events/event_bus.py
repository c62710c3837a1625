"""Events inside this process: what was committed goes to everybody who listens.

Source: docs/spec/api, section Websocket.

A listener has a bounded queue. One that does not keep up is dropped and told so by the end of its
queue: it then lists anew, as after any broken connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lading.core.records.schema import Record

QUEUE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A log row as listeners see it; `owner_uuid` decides who may."""

    id: int
    uuid: str
    object_uuid: str
    object_owner_uuid: str
    object_kind: str | None
    event_type: str
    event_at: str
    properties: Record


class Listener:
    """One queue of events; it ends when it overflowed."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue(QUEUE)
        self.lost = False

    def put(self, event: Event) -> None:
        """Add an event, or give the listener up."""
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self.lost = True

    @property
    def waiting(self) -> int:
        """How many events it has not taken yet."""
        return self._queue.qsize()

    async def get(self) -> Event:
        """The next event."""
        return await self._queue.get()


class Bus:
    """Hands every event to every listener."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self.token_changes = 0
        """How many times a token was changed or deleted here; listeners are not told of those."""

    def note_token_change(self) -> None:
        """A token was changed or deleted: who listens with it has to be looked up again."""
        self.token_changes += 1

    def publish(self, event: Event) -> None:
        """Tell everybody."""
        for listener in self._listeners:
            listener.put(event)

    @property
    def listening(self) -> int:
        """How many listen."""
        return len(self._listeners)

    @property
    def queues(self) -> list[int]:
        """How many events wait for each listener."""
        return sorted(one.waiting for one in self._listeners)

    @contextmanager
    def listen(self) -> Iterator[Listener]:
        """Hear everything that is published meanwhile."""
        listener = Listener()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)
