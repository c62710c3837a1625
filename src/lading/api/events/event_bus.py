"""Sends each committed event to each listener of this process (docs/spec/api, section Websocket).

The queue of a listener is bounded. A listener that does not keep up is dropped, and its queue ends:
its client lists the records again, as after any broken connection.

A listener of a `user` gets the events that this user may read: these are decided once for all
listeners (`audiences`) and then handed out. Any other listener gets all, and its reader decides.
Events that its filters leave out are put into no queue.

Of the listeners that take offers, one hears first of a container that begins to wait
(`core.scheduling.lock_offers`), and the one that holds a container hears alone of what follows its
lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Set
from contextlib import contextmanager

from lading.api.events.listeners import (
    CONTAINER,
    QUEUE,
    Changes,
    Listener,
    LogEvent,
    Wants,
    wants_all,
)
from lading.core.containers.container import ContainerState
from lading.core.ids import Infix
from lading.core.scheduling.lock_offers import LockOffers
from lading.process.concurrency import SmallQueue

# Events about which nothing is decided yet; beyond them the listeners of users are dropped.
_MOST_UNDECIDED = 8 * QUEUE


class EventBus:
    """Hands each event to each listener."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        # Those that get all events, and the others by user.
        self._direct: set[Listener] = set()
        self._by_user: dict[str, set[Listener]] = {}
        self._undecided = SmallQueue[LogEvent](_MOST_UNDECIDED)
        # The filters of all listeners, and how many listeners have each.
        self._filters: dict[bytes, tuple[Wants, int]] = {}
        # Listeners that were dropped and wait for an event to find out.
        self._dropped: set[Listener] = set()
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
        only = self._only_dispatcher(event) if event.object_kind == CONTAINER else ""
        # A change of a user may make another caller of a listener, whatever its filters.
        for_all = event.object_uuid[6:11] == Infix.USER
        for listener in self._direct:
            is_told = not only or listener.dispatcher in ("", only)
            if is_told and (for_all or listener.wants(event)):
                listener.put(event)
        if self._by_user:
            try:
                self._undecided.put_at_once(event)
            except asyncio.QueueFull:
                self.lose_audiences(event)
        if self._dropped:
            dropped, self._dropped = self._dropped, set()
            for listener in dropped:
                listener.put(event)
        for changes in self._waiting:
            if event.object_uuid in changes.uuids:
                changes.note()
        self.wake()

    def _only_dispatcher(self, event: LogEvent) -> str:
        """The only dispatcher, of those that take offers, that hears now of an event about a
        container; "" if all do.
        """
        dispatchers = {listener.dispatcher for listener in self._direct if not listener.lost} - {""}
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
            for listener in self._direct:
                if listener.dispatcher not in ("", first):
                    listener.put(event)
        self._await_deadline(loop)

    def lose(self) -> None:
        """Drop all listeners, each once it has had one more event: more has happened than they can
        follow.
        """
        for listener in self.listeners:
            listener.lost = True
        self._dropped = set(self.listeners)

    def lose_audiences(self, event: LogEvent) -> None:
        """Drop the listeners of users, with an event that ends their waiting."""
        self._undecided.clear()
        for listeners in self._by_user.values():
            for listener in listeners:
                listener.lost = True
                listener.put(event)

    @property
    def users(self) -> Set[str]:
        """The users that have listeners."""
        return self._by_user.keys()

    def is_wanted(self, event: LogEvent) -> bool:
        """Whether a listener wants an event: equal filters are looked at once."""
        return event.object_uuid in self._by_user or any(
            wants(event) for wants, _ in self._filters.values()
        )

    async def until_undecided(self) -> None:
        """Wait for an event about which nothing is decided."""
        await self._undecided.arrival()

    def take_undecided(self, most: int) -> list[LogEvent]:
        """The next events about which nothing is decided, in their order."""
        count = min(most, len(self._undecided))
        return [self._undecided.get_at_once() for _ in range(count)]

    def hand_out(self, event: LogEvent, users: Collection[str], *, decided_at: float) -> None:
        """Put an event into the queues of those of these users who want it. A user hears of changes
        of the own record in any case: it may have become another caller.
        """
        about = self._by_user.get(event.object_uuid)
        for listener in about or ():
            listener.put(event, decided_at if event.object_uuid in users else None)
        for user in users:
            if user != event.object_uuid:
                for listener in self._by_user.get(user, ()):
                    if listener.wants(event):
                        listener.put(event, decided_at)

    def choose(self, listener: Listener, key: bytes, wants: Wants) -> None:
        """Set the filters of a listener; those with equal keys are equal."""
        self._forget_filters(listener)
        listener.key, listener.wants = key, wants
        count = self._filters.get(key, (wants, 0))[1]
        self._filters[key] = (wants, count + 1)

    def _forget_filters(self, listener: Listener) -> None:
        wants, count = self._filters[listener.key]
        if count > 1:
            self._filters[listener.key] = (wants, count - 1)
        else:
            del self._filters[listener.key]

    def follow(self, listener: Listener, user: str) -> None:
        """Have a listener get the events that a user may read, or all for ""."""
        if user != listener.user:
            self._remove(listener)
            listener.user = user
            self._add(listener)

    def _add(self, listener: Listener) -> None:
        if listener.user:
            self._by_user.setdefault(listener.user, set()).add(listener)
        else:
            self._direct.add(listener)

    def _remove(self, listener: Listener) -> None:
        self._direct.discard(listener)
        of_user = self._by_user.get(listener.user, set())
        of_user.discard(listener)
        if not of_user:
            self._by_user.pop(listener.user, None)

    def wake(self) -> None:
        """Call the watchers: something was stored that they may have to act on."""
        for watcher in self._watchers:
            watcher()

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
        return sorted(listener.waiting for listener in self.listeners)

    @contextmanager
    def watch(self, watcher: Callable[[], None]) -> Iterator[None]:
        """Call `watcher` after each event and each `wake` while the context lasts."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

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
    def listen(self, user: str = "") -> Iterator[Listener]:
        """A listener for the events that are published while the context lasts: for those that a
        user may read, or for all.
        """
        listener = Listener(user)
        self.listeners.add(listener)
        self._filters[b""] = (wants_all, self._filters.get(b"", (wants_all, 0))[1] + 1)
        self._add(listener)
        try:
            yield listener
        finally:
            self.listeners.discard(listener)
            self._dropped.discard(listener)
            self._forget_filters(listener)
            self._remove(listener)
