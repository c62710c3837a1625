"""The dispatcher that hears first of a container that begins to wait.

All dispatchers with free room try to lock a container that they hear of, and all but one lose. So
one of them hears of it first, which is an offer. The others hear of it when the offer ends without
a lock.

- An offer lasts five times the mean time from an offer to its lock, within SHORTEST and LONGEST
seconds: on a busy server locks take long, and each further attempt makes it busier. - A dispatcher
has at most `most` open offers, so that a container overtakes few others while one dispatcher alone
knows of them. When each has as many, all hear of a container at once. - A dispatcher that lets an
offer pass is taken to have no room. It gets no offer until it locks a container, one of its
containers ends, or `pause` seconds are over. The pause doubles after each pause without a lock, up
to LONGEST_PAUSE. One that was drained is seldom asked so. - Of the others the one with the fewest
open offers is next, then the one whose last offer is oldest.

Source: docs/spec/dispatch, section Offers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

SHORTEST, LONGEST = 0.1, 2.0
LONGEST_PAUSE = 160.0
# An idle server gives a lock within 10 ms, so the shortest offer is enough there.
_TIMES = 5.0
# Share of the newest lock in the mean.
_NEWEST = 0.2
_PAUSE = 10.0
_MOST = 4
# Ended offers whose locks are still timed.
_MOST_ENDED = 256
# Containers whose holder is remembered. Of a forgotten one all dispatchers hear.
_MOST_HELD = 65536


@dataclass(frozen=True, slots=True)
class _Offer:
    """A container that one dispatcher was told of."""

    dispatcher: str
    began: float
    deadline: float


class LockOffers:
    """The open offers. Dispatchers are named by their tokens' uuids, times are seconds of one
    clock.
    """

    def __init__(
        self,
        *,
        pause: float = _PAUSE,
        most: int = _MOST,
        most_held: int = _MOST_HELD,
        most_ended: int = _MOST_ENDED,
    ) -> None:
        self._pause = pause
        self._most = most
        self._most_held = most_held
        self._most_ended = most_ended
        self._offered = 0
        self._mean = 0.0
        self._open: dict[str, _Offer] = {}
        self._ended: dict[str, _Offer] = {}
        self._last: dict[str, int] = {}
        # Dispatchers without room: until when, and for how many seconds.
        self._full: dict[str, tuple[float, float]] = {}
        self._holders: dict[str, str] = {}

    def offer(self, container: str, dispatchers: Collection[str], *, now: float) -> str:
        """The dispatcher that hears of the container first; "" if all of them do at once."""
        self.close(container)
        if len(dispatchers) < 2:
            return ""
        self._last = {dispatcher: self._last.get(dispatcher, 0) for dispatcher in dispatchers}
        self._full = {
            dispatcher: full for dispatcher, full in self._full.items() if dispatcher in self._last
        }
        load = dict.fromkeys(dispatchers, 0)
        for offer in self._open.values():
            load[offer.dispatcher] = load.get(offer.dispatcher, 0) + 1
        able = [
            dispatcher
            for dispatcher in dispatchers
            if load[dispatcher] < self._most and not self._is_full(dispatcher, now)
        ]
        if not able:
            return ""
        chosen = min(
            able, key=lambda dispatcher: (load[dispatcher], self._last[dispatcher], dispatcher)
        )
        self._offered += 1
        self._last[chosen] = self._offered
        self._open[container] = _Offer(chosen, now, now + self.period)
        return chosen

    def _is_full(self, dispatcher: str, now: float) -> bool:
        return dispatcher in self._full and self._full[dispatcher][0] > now

    @property
    def period(self) -> float:
        """Seconds that an offer lasts from now on."""
        return min(max(SHORTEST, _TIMES * self._mean), LONGEST)

    def offered_to(self, container: str) -> str:
        """The dispatcher of an open offer, "" without one."""
        offer = self._open.get(container)
        return offer.dispatcher if offer is not None else ""

    def holder(self, container: str) -> str:
        """The dispatcher that has locked a container, "" if that is not known."""
        return self._holders.get(container, "")

    def lock(self, container: str, dispatcher: str, *, now: float) -> None:
        """A dispatcher has locked a container: its offer ends, and the dispatcher has room."""
        offer = self._open.get(container) or self._ended.get(container)
        if offer is not None and offer.dispatcher == dispatcher:
            self._mean += _NEWEST * (now - offer.began - self._mean)
        self.close(container)
        self._full.pop(dispatcher, None)
        self._holders[container] = dispatcher
        if len(self._holders) > self._most_held:
            del self._holders[next(iter(self._holders))]

    def close(self, container: str) -> None:
        """A container waits no more, or nobody holds it any more: its dispatcher has room."""
        self._open.pop(container, None)
        self._ended.pop(container, None)
        holder = self._holders.pop(container, "")
        self._full.pop(holder, None)

    @property
    def deadline(self) -> float | None:
        """When the next offer ends; None when there is none."""
        return min((offer.deadline for offer in self._open.values()), default=None)

    def expire(self, now: float) -> Iterator[tuple[str, str]]:
        """End the offers whose time is over: each container, with the dispatcher that let it
        pass.
        """
        over = [uuid for uuid, offer in self._open.items() if offer.deadline <= now]
        for container in over:
            offer = self._ended[container] = self._open.pop(container)
            if len(self._ended) > self._most_ended:
                del self._ended[next(iter(self._ended))]
            if not self._is_full(offer.dispatcher, now):
                pause = self._full.get(offer.dispatcher, (0.0, self._pause / 2))[1] * 2
                pause = min(pause, LONGEST_PAUSE)
                self._full[offer.dispatcher] = now + pause, pause
            yield container, offer.dispatcher
