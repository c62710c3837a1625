"""Deferred removal of directories that could not be removed at once, by a process of low priority
beside the warm parent.

It is started with the warm parent, and once a minute while something was moved aside
(`lading.removal`); after an attempt without progress the pause doubles, up to an hour.
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
"""Seconds between two attempts, at first and at most."""
# The lowest nice priority.
_LOWEST = 19


@dataclass(slots=True)
class Tidier:
    """Runs attempts for `places`. `fork` runs a function in a process of its own and returns its
    pid. `clock`: seconds, monotonic.
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
        """Seconds until `look` has work."""
        return max(0.0, self._due - self.clock())

    def look(self) -> None:
        """Start an attempt when it is due and there is something to remove."""
        if self._pidfd >= 0 or self.clock() < self._due:
            return
        self._before = self._count()
        self._due = self.clock() + self._period
        if self._before:
            self._pid = self.fork(self._work)
            self._pidfd = os.pidfd_open(self._pid)
            self.poll.register(self._pidfd, select.POLLIN)

    def take(self, descriptor: int) -> bool:
        """Whether the descriptor reports the end of the attempt, which is then recorded."""
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
        """Close descriptors that a forked process must not hold."""
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
