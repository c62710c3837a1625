"""Listeners of one process to events, each with a queue of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from lading.core.records.schema import Record
from lading.process.concurrency import SmallQueue

# Events that a listener may be behind. A batch of some hundred submissions fits.
QUEUE = 1024
CONTAINER = "arvados#container"
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
    texts: dict[tuple[str, bool], str] = field(
        default_factory=dict[tuple[str, bool], str], compare=False, repr=False
    )
    """Its encoded forms, each made for the first listener and sent to all: by form, and whether the
    old attributes are in it."""

    @property
    def is_change_of_container(self) -> bool:
        """Whether a container was made, changed or deleted."""
        return self.object_kind == CONTAINER and self.event_type in _CHANGES

    @property
    def is_move(self) -> bool:
        """Whether the record came from another owner."""
        owner = self.attributes("old_attributes").get("owner_uuid")
        return owner not in (None, self.attributes("new_attributes").get("owner_uuid", owner))

    def attributes(self, side: str) -> Record:
        """Its `old_attributes` or `new_attributes`; empty if it has none."""
        found = self.properties.get(side)
        return found if isinstance(found, dict) else {}


Wants = Callable[[LogEvent], bool]


def wants_all(_: LogEvent) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class HeardEvent:
    """An event in the queue of a listener. `decided_at`: the time of the loop at which its user was
    found to be able to read it; None if its reader has to find out.
    """

    event: LogEvent
    decided_at: float | None = None


class Listener:
    """One queue of events. It ends when it overflows. `user`: "" for a listener that gets all."""

    def __init__(self, user: str = "") -> None:
        self._queue = SmallQueue[HeardEvent](QUEUE)
        self.user = user
        self.wants: Wants = wants_all
        """Whether an event meets the filters of the listener."""
        self.key = b""
        self.lost = False
        self.dispatcher = ""
        """The uuid of the token of a dispatcher that takes offers; "" for any other listener."""
        self.selected: tuple[str, ...] = ()
        """The attributes of a new container that such a dispatcher wants with its event."""

    def take_offers(self, dispatcher: str, selected: tuple[str, ...] = ()) -> None:
        """Set the dispatcher, and what it wants to know; "" for a listener that takes no offers."""
        self.dispatcher, self.selected = dispatcher, selected

    def put(self, event: LogEvent, decided_at: float | None = None) -> None:
        """Add an event, or drop the listener when its queue is full."""
        try:
            self._queue.put_at_once(HeardEvent(event, decided_at))
        except asyncio.QueueFull:
            self.lost = True

    @property
    def waiting(self) -> int:
        """Number of events in the queue."""
        return len(self._queue)

    async def get(self) -> HeardEvent:
        """The next event."""
        return await self._queue.get()

    async def arrival_by(self, when: float) -> None:
        """Wait until there is an event, until a time of the loop at the latest."""
        await self._queue.arrival_by(when)

    def get_at_once(self) -> HeardEvent:
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
