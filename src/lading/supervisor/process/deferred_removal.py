"""Removing later what could not be removed at once: a process of low priority beside the warm
parent.

It is started when the warm parent starts, and once a minute while something was moved aside
(`lading.removal`); where a try removes nothing, the pause doubles, up to an hour.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lading import removal
from lading.supervisor import linux

PERIOD, LONGEST = 60.0, 3600.0
"""Seconds between two tries."""
_LOWEST = 19


@dataclass(slots=True)
class Tidier:
    """Looks after `places`. `fork` runs a function in a process of its own; its pid. `clock`:
    seconds, monotonic.
    """

    places: tuple[Path, ...]
    fork: Callable[[Callable[[], int]], int]
    poll: select.poll
    clock: Callable[[], float]
    _pid: int = 0
    _pidfd: int = -1
    _due: float = 0.0
    _period: float = PERIOD
    _before: int = field(default=0)

    def timeout(self) -> float:
        """Seconds until `look` has something to do."""
        return max(0.0, self._due - self.clock())

    def look(self) -> None:
        """Start a try when it is time and there is something to remove."""
        if self._pidfd >= 0 or self.clock() < self._due:
            return
        self._before = self._count()
        self._due = self.clock() + self._period
        if self._before:
            self._pid = self.fork(self._work)
            self._pidfd = os.pidfd_open(self._pid)
            self.poll.register(self._pidfd, select.POLLIN)

    def take(self, descriptor: int) -> bool:
        """Whether the descriptor says that the try has ended, which is then noted."""
        if descriptor != self._pidfd or descriptor < 0:
            return False
        self.poll.unregister(self._pidfd)
        self.leave()
        os.waitpid(self._pid, 0)
        left = self._count()
        self._period = PERIOD if left < self._before or not left else min(2 * self._period, LONGEST)
        self._due = self.clock() + self._period
        return True

    def leave(self) -> None:
        """Close what another process must not hold."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _count(self) -> int:
        return sum(len(removal.waiting(place)) for place in self.places)

    def _work(self) -> int:
        linux.end_with_parent()
        os.nice(_LOWEST)
        for place in self.places:
            removal.retry(place)
        return 0
