"""Messages under way. `scenario` decides which message is delivered, lost or doubled next.

An exchange is two messages: the request and its answer. If either is lost, the caller gets
Unavailable, so the request may have been carried out or not. A doubled request is carried out
twice. Messages of one stream (a websocket) keep their order; all others may overtake each other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from lading.core.errors import LadingError, Unavailable

Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class Message:
    """A message under way.

    `deliver` lets it arrive, `lose` drops it, `again` carries out its request once more.
    """

    label: str
    deliver: Callable[[], None]
    lose: Callable[[], None] | None = None
    again: Callable[[], object] | None = None


@dataclass(slots=True)
class Traffic:
    """All messages under way."""

    pending: list[Message] = field(default_factory=list)

    async def exchange(
        self, label: str, act: Callable[[], Answer], *, is_single: bool = False
    ) -> Answer:
        """Result of `act`, which the other side calls when the request arrives. One that
        `is_single` is never doubled.

        Raises the LadingError that `act` raises, Unavailable if a message is lost.
        """
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

        lose = partial(fail, _lost(label))
        again = None if is_single else partial(_quietly, act)
        self.pending.append(Message(label, arrive, lose, again))
        return await outcome

    def tell(self, label: str, deliver: Callable[[], None]) -> None:
        """Send a message without an answer. It is never lost, only late."""
        self.pending.append(Message(label, deliver))

    def drop(self, label: str) -> None:
        """Lose all messages whose label begins with `label`: their connection breaks."""
        broken = [one for one in self.pending if one.label.startswith(label)]
        self.pending = [one for one in self.pending if not one.label.startswith(label)]
        for one in broken:
            if one.lose is not None:
                one.lose()

    def _send(self, label: str, deliver: Callable[[], None], lose: Callable[[], None]) -> None:
        self.pending.append(Message(label, deliver, lose))


@dataclass(slots=True)
class Stream:
    """A connection that delivers its messages late, but in order."""

    traffic: Traffic
    label: str
    take: Callable[[object], None]
    token: str = ""
    """The uuid of the token of the dispatcher that listens; "" for any other listener."""
    open: bool = True
    _queue: deque[object] = field(default_factory=deque)

    def send(self, item: object) -> None:
        """Send an item after all earlier ones."""
        self._queue.append(item)
        self.traffic.tell(self.label, self._next)

    def close(self) -> None:
        """Close the stream: items under way never arrive."""
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
