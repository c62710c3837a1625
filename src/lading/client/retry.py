"""Retry policy of clients: retried failures, attempts and pauses (docs/spec/api, section Retrying).

Only the statuses 408, 423, 500, 502, 503, 504 and broken connections are retried. The pause doubles
from `base` to `cap` and is shortened at random by up to half, so that many clients do not call at
the same moment.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from lading.core.errors import LadingError

RETRIED = frozenset({408, 423, 500, 502, 503, 504})
Sleep = Callable[[float], Awaitable[None]]
_Answer = TypeVar("_Answer")
OUTAGE = 120.0
"""Seconds for which whoever follows a request waits for a server that does not answer."""


PATIENCE: float = 5.0
"""Seconds without an answer after which a person is told of it."""


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """At most `attempts` attempts, none started later than `give_up_after` seconds after the first.
    Pauses are in seconds. `later`: the policy once the server has answered a call, as a connection
    that was cut comes back, and a wrong address does not.
    """

    attempts: int = 10
    base: float = 0.05
    cap: float = 10.0
    give_up_after: float = 120.0
    later: RetryPolicy | None = None

    def pause(self, failures: int, chance: float) -> float:
        """Seconds to wait after so many failures; `chance` is a random number from 0 to 1."""
        # The exponent is bounded: events are retried without end, and 2 ** 1024 is no float.
        full: float = min(self.cap, self.base * 2 ** min(failures - 1, 30))
        return full * (1 - chance / 2)


NO_RETRY = RetryPolicy(attempts=1)


class Retries(msgspec.Struct, kw_only=True):
    """A policy with its clock, random numbers and sleep. `tell` is called with the error, once for
    each call that is in vain for `PATIENCE` seconds.
    """

    policy: RetryPolicy = RetryPolicy()
    sleep: Sleep = asyncio.sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic
    tell: Callable[[LadingError], None] | None = None

    async def run(self, attempt: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """The first success of `attempt`; raises its last error when it is not retried, or attempts
        or time are used up.
        """
        began, failures, tell = self.clock(), 0, self.tell
        while True:
            try:
                answer = await attempt()
            except LadingError as error:
                failures += 1
                pause = self.policy.pause(failures, self.chance())
                spent = self.clock() - began
                late = spent + pause > self.policy.give_up_after
                if error.status not in RETRIED or failures >= self.policy.attempts or late:
                    raise
                if tell is not None and spent >= PATIENCE:
                    tell(error)
                    tell = None
            else:
                self.policy = self.policy.later or self.policy
                return answer
            await self.sleep(pause)


class Outage:
    """An outage of the server while the end of some work is waited for. The work goes on without
    the server, so the wait does as well, for `seconds` at most.
    """

    def __init__(
        self, *, seconds: float = OUTAGE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._began: float | None = None

    def bear(self, error: LadingError) -> bool:
        """Note a failed call; whether it is the first one of an outage. Raises the error if it is
        none that passes, or if the outage has lasted too long.
        """
        now = self._clock()
        if error.status not in RETRIED or (
            self._began is not None and now - self._began >= self._seconds
        ):
            raise error
        is_first = self._began is None
        if is_first:
            self._began = now
        return is_first

    def end(self) -> bool:
        """Note a call that was answered; whether it ends an outage."""
        had_begun, self._began = self._began is not None, None
        return had_begun
