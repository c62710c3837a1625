"""Messages on their way. Nothing arrives by itself: `scenario` picks what is delivered, lost or doubled.

A request is two messages, there and back. What is lost on either way is Unavailable for the one who asked, after it
was done or before; a doubled request is done twice. Messages of one stream (a websocket) keep their order, all others
overtake each other as the scheduler likes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from lading.core.errors import LadingError, Unavailable

Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class Message:
    """Something under way: `deliver` has it arrive, `lose` has it never arrive; `again` may be done a second time."""

    label: str
    deliver: Callable[[], None]
    lose: Callable[[], None] | None = None
    again: Callable[[], object] | None = None


@dataclass(slots=True)
class Traffic:
    """All messages under way."""

    pending: list[Message] = field(default_factory=list)

    async def exchange(self, label: str, act: Callable[[], Answer]) -> Answer:
        """Have `act` done by the other side; what it returns or raises. Raises Unavailable when a message is lost."""
        outcome: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def fail(error: BaseException) -> None:
            if not outcome.done():
                outcome.set_exception(error)

        def arrive() -> None:
            try:
                answer = act()
            except LadingError as error:
                fault = error
                self._send(f"{label} !", lambda: fail(fault), lambda: fail(_lost(label)))
                return

            def succeed() -> None:
                if not outcome.done():
                    outcome.set_result(answer)

            self._send(f"{label} .", succeed, lambda: fail(_lost(label)))

        self.pending.append(Message(label, arrive, lambda: fail(_lost(label)), lambda: _quietly(act)))
        return await outcome

    def tell(self, label: str, deliver: Callable[[], None]) -> None:
        """A message without an answer that is never lost, only late."""
        self.pending.append(Message(label, deliver))

    def drop(self, label: str) -> None:
        """Everything whose label begins with `label` is lost, as when its connection breaks."""
        broken = [one for one in self.pending if one.label.startswith(label)]
        self.pending = [one for one in self.pending if not one.label.startswith(label)]
        for one in broken:
            if one.lose is not None:
                one.lose()

    def _send(self, label: str, deliver: Callable[[], None], lose: Callable[[], None]) -> None:
        self.pending.append(Message(label, deliver, lose))


@dataclass(slots=True)
class Stream:
    """A connection whose messages arrive late, but in order."""

    traffic: Traffic
    label: str
    take: Callable[[object], None]
    open: bool = True
    _queue: deque[object] = field(default_factory=deque)

    def send(self, item: object) -> None:
        """One more message."""
        self._queue.append(item)
        self.traffic.tell(self.label, self._next)

    def close(self) -> None:
        """What is under way never arrives."""
        self.open = False
        self._queue.clear()

    def _next(self) -> None:
        if self._queue:
            self.take(self._queue.popleft())


def _lost(label: str) -> Unavailable:
    return Unavailable(f"{label}: no answer")


def _quietly(act: Callable[[], object]) -> None:
    try:
        act()
    except LadingError:
        return
