"""Sends each committed event to each listener of this process (docs/spec/api, section Websocket).

The queue of a listener is bounded. A listener that does not keep up is dropped, and its queue ends:
its client lists the records again, as after any broken connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lading.core.records.schema import Record
from lading.small_queue import SmallQueue

# Events that a listener may be behind. A batch of some hundred submissions fits.
QUEUE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """A log row as listeners see it; `owner_uuid` decides which users may see it."""

    id: int
    uuid: str
    object_uuid: str
    object_owner_uuid: str
    object_kind: str | None
    event_type: str
    event_at: str
    properties: Record


class Listener:
    """One queue of events. It ends when it overflows."""

    def __init__(self) -> None:
        self._queue = SmallQueue[LogEvent](QUEUE)
        self.lost = False

    def put(self, event: LogEvent) -> None:
        """Add an event, or drop the listener when its queue is full."""
        try:
            self._queue.put_at_once(event)
        except asyncio.QueueFull:
            self.lost = True

    @property
    def waiting(self) -> int:
        """Number of events in the queue."""
        return len(self._queue)

    async def get(self) -> LogEvent:
        """The next event."""
        return await self._queue.get()

    async def arrival(self) -> None:
        """Wait until there is an event."""
        await self._queue.arrival()

    def get_at_once(self) -> LogEvent:
        """The next event. Raises IndexError when there is none."""
        return self._queue.get_at_once()


class Changes:
    """Tells one waiter that some of its records have changed, or that waiting is over because the
    server ends.
    """

    def __init__(self, uuids: Collection[str], *, is_over: bool) -> None:
        self.uuids = uuids
        self.is_over = is_over
        self._change = asyncio.Event()

    def note(self) -> None:
        """Let `wait` return: the present call, or else the next one."""
        self._change.set()

    async def wait(self) -> None:
        """Wait until a record has changed since the last return, or waiting is over."""
        if not self.is_over:
            await self._change.wait()
            self._change.clear()


class EventBus:
    """Hands each event to each listener."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self._waiting: set[Changes] = set()
        self._is_ending = False
        self._watchers: list[Callable[[], None]] = []
        self.token_changes = 0
        """Number of changes and deletions of tokens here; listeners do not get those events."""

    def note_token_change(self) -> None:
        """Note that a token was changed or deleted: the tokens of listeners must be looked up
        again.
        """
        self.token_changes += 1

    def publish(self, event: LogEvent) -> None:
        """Put an event into the queue of each listener."""
        for listener in self.listeners:
            listener.put(event)
        for changes in self._waiting:
            if event.object_uuid in changes.uuids:
                changes.note()
        self.wake()

    def lose(self) -> None:
        """Drop all listeners, each once it has had one more event: more has happened than they can
        follow.
        """
        for listener in self.listeners:
            listener.lost = True

    def wake(self) -> None:
        """Call the watchers: something was stored that they may have to act on."""
        for told in self._watchers:
            told()

    @property
    def listening(self) -> int:
        """Number of listeners."""
        return len(self.listeners)

    @property
    def waits(self) -> int:
        """Number of calls that wait for changes of their records."""
        return len(self._waiting)

    @property
    def queues(self) -> list[int]:
        """Number of events in the queue of each listener."""
        return sorted(one.waiting for one in self.listeners)

    @contextmanager
    def watch(self, told: Callable[[], None]) -> Iterator[None]:
        """Call `told` after each event and each `wake` while the context lasts."""
        self._watchers.append(told)
        try:
            yield
        finally:
            self._watchers.remove(told)

    @contextmanager
    def listen_for(self, uuids: Collection[str]) -> Iterator[Changes]:
        """Changes of these records while the context lasts."""
        changes = Changes(uuids, is_over=self._is_ending)
        self._waiting.add(changes)
        try:
            yield changes
        finally:
            self._waiting.discard(changes)

    def end_waits(self) -> None:
        """Wake all that wait for changes, and let nobody wait any more: the server ends."""
        self._is_ending = True
        for changes in self._waiting:
            changes.is_over = True
            changes.note()

    @contextmanager
    def listen(self) -> Iterator[Listener]:
        """A listener for the events that are published while the context lasts."""
        listener = Listener()
        self.listeners.add(listener)
        try:
            yield listener
        finally:
            self.listeners.discard(listener)
