"""A queue for one receiver that takes little memory while it is empty.

A queue of asyncio has four deques of 760 bytes and an event. A thousand clients with two or three
queues each would take several megabytes more.
"""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class SmallQueue(Generic[_Item]):
    """At most `most` items, in order, from any number of senders to one receiver."""

    __slots__ = ("_arrived", "_held", "_most", "_room")

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: list[_Item] = []
        self._arrived: asyncio.Future[None] | None = None
        self._room: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def is_full(self) -> bool:
        """Whether the next sender has to wait."""
        return len(self._held) >= self._most

    def put_at_once(self, item: _Item) -> None:
        """Add an item. Raises asyncio.QueueFull."""
        if self.is_full:
            raise asyncio.QueueFull
        self._held.append(item)
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    async def put(self, item: _Item) -> None:
        """Add an item as soon as there is room."""
        while self.is_full:
            if self._room is None:
                self._room = asyncio.Event()
            await self._room.wait()
        self.put_at_once(item)

    async def get(self) -> _Item:
        """The next item, which stays in the queue if this is cancelled."""
        await self.arrival()
        return self.get_at_once()

    async def arrival(self) -> None:
        """Wait until there is an item."""
        while not self._held:
            self._arrived = asyncio.get_running_loop().create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None

    async def arrival_by(self, when: float) -> bool:
        """Wait until there is an item, until a time of the loop; whether there is one."""
        while not self._held:
            loop = asyncio.get_running_loop()
            if loop.time() >= when:
                return False
            future = self._arrived = loop.create_future()
            # Cheaper than `asyncio.timeout`, which counts where a thousand receivers wait.
            timer = loop.call_at(when, _end, future)
            try:
                await future
            finally:
                timer.cancel()
                self._arrived = None
        return True

    def get_at_once(self) -> _Item:
        """The next item. Raises IndexError when the queue is empty."""
        item = self._held.pop(0)
        self._make_room()
        return item

    def clear(self) -> None:
        """Drop all items."""
        self._held.clear()
        self._make_room()

    def _make_room(self) -> None:
        if self._room is not None:
            # All senders that wait look again whether there is room.
            self._room.set()
            self._room = None


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
