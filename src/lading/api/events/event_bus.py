"""Sends each committed event to each listener of this process (docs/spec/api, section Websocket).

The queue of a listener is bounded. A listener that does not keep up is dropped, and its queue ends:
its client lists the records again, as after any broken connection.

Of the listeners that take offers, one hears first of a container that begins to wait
(`core.scheduling.lock_offers`), and the one that holds a container hears alone of what follows its
lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lading.core.containers.container import ContainerState
from lading.core.records.schema import Record
from lading.core.scheduling.lock_offers import LockOffers
from lading.small_queue import SmallQueue

# Events that a listener may be behind. A batch of some hundred submissions fits.
QUEUE = 1024
_CONTAINER = "arvados#container"
_CHANGES = ("create", "update", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """A log row as listeners see it; `owner_uuid` decides which users may see it. `record` are the
    attributes of a new record, which only dispatchers get.
    """

    id: int
    uuid: str
    object_uuid: str
    object_owner_uuid: str
    object_kind: str | None
    event_type: str
    event_at: str
    properties: Record
    record: Record = field(default_factory=dict)

    @property
    def is_change_of_container(self) -> bool:
        """Whether a container was made, changed or deleted."""
        return self.object_kind == _CONTAINER and self.event_type in _CHANGES

    def attributes(self, side: str) -> Record:
        """Its `old_attributes` or `new_attributes`; empty if it has none."""
        found = self.properties.get(side)
        return found if isinstance(found, dict) else {}


class Listener:
    """One queue of events. It ends when it overflows."""

    def __init__(self) -> None:
        self._queue = SmallQueue[LogEvent](QUEUE)
        self.lost = False
        self.dispatcher = ""
        """The uuid of the token of a dispatcher that takes offers; "" for any other listener."""
        self.selected: tuple[str, ...] = ()
        """The attributes of a new container that such a dispatcher wants with its event."""

    def take_offers(self, dispatcher: str, selected: tuple[str, ...] = ()) -> None:
        """Set the dispatcher, and what it wants to know; "" for a listener that takes no offers."""
        self.dispatcher, self.selected = dispatcher, selected

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
        self._offers = LockOffers()
        # The events of offered containers, for those who have not heard of them.
        self._deferred: dict[str, LogEvent] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.token_changes = 0
        """Number of changes and deletions of tokens here; listeners do not get those events."""

    def note_token_change(self) -> None:
        """Note that a token was changed or deleted: the tokens of listeners must be looked up
        again.
        """
        self.token_changes += 1

    def publish(self, event: LogEvent) -> None:
        """Put an event into the queue of each listener. An event about a container may go to one
        only of the dispatchers that take offers.
        """
        only = self._only_dispatcher(event) if event.object_kind == _CONTAINER else ""
        for listener in self.listeners:
            if not only or listener.dispatcher in ("", only):
                listener.put(event)
        for changes in self._waiting:
            if event.object_uuid in changes.uuids:
                changes.note()
        self.wake()

    def _only_dispatcher(self, event: LogEvent) -> str:
        """The only dispatcher, of those that take offers, that hears now of an event about a
        container; "" if all do.
        """
        dispatchers = {one.dispatcher for one in self.listeners if not one.lost} - {""}
        if not dispatchers or not event.is_change_of_container:
            return ""
        container = event.object_uuid
        old, new = event.attributes("old_attributes"), event.attributes("new_attributes")
        match new.get("state"):
            case ContainerState.QUEUED if old.get("state") == ContainerState.QUEUED:
                return self._offers.offered_to(container)
            case ContainerState.QUEUED:
                return self._offer(event, dispatchers)
            case ContainerState.LOCKED if old.get("state") != ContainerState.LOCKED:
                self._deferred.pop(container, None)
                if holder := str(new.get("locked_by_uuid") or ""):
                    now = asyncio.get_running_loop().time()
                    self._offers.lock(container, holder, now=now)
                else:
                    # A server of an earlier release on the same database names no holder.
                    self._offers.close(container)
                return ""
            case ContainerState.LOCKED | ContainerState.RUNNING:
                # One that does not listen here hears of it from another server.
                return self._offers.holder(container)
            case _:
                holder = self._offers.holder(container)
                self._deferred.pop(container, None)
                self._offers.close(container)
                return holder

    def _offer(self, event: LogEvent, dispatchers: Collection[str]) -> str:
        loop = asyncio.get_running_loop()
        self._deferred.pop(event.object_uuid, None)
        chosen = self._offers.offer(event.object_uuid, dispatchers, now=loop.time())
        if chosen:
            self._deferred[event.object_uuid] = event
            self._await_deadline(loop)
        return chosen

    def _await_deadline(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is None and (deadline := self._offers.deadline) is not None:
            self._timer = loop.call_at(deadline, self._tell_others)

    def _tell_others(self) -> None:
        """Tell the other dispatchers of the containers whose offers are over."""
        self._timer = None
        loop = asyncio.get_running_loop()
        for container, first in self._offers.expire(loop.time()):
            event = self._deferred.pop(container)
            for listener in self.listeners:
                if listener.dispatcher not in ("", first):
                    listener.put(event)
        self._await_deadline(loop)

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
        if self._timer is not None:
            self._timer.cancel()
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
