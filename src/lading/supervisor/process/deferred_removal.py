"""Attempts to remove what is left of ended containers, each in a process of its own."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lading.process import removal
from lading.supervisor import linux

REMOVAL_PERIOD, LONGEST_REMOVAL_PERIOD = 60.0, 3600.0
"""Seconds between two attempts, at first and at most."""
# The lowest nice priority.
_LOWEST = 19


@dataclass(slots=True)
class DeferredRemoval:
    """Runs attempts for `places`. `fork` runs a function in a process of its own and returns its
    pid. `clock`: seconds, monotonic.
    """

    places: tuple[Path, ...]
    fork: Callable[[Callable[[], int]], int]
    poll: select.poll
    clock: Callable[[], float]
    _pid: int = 0
    pidfd: int = -1
    """The process that removes, -1 without one."""
    _due: float = 0.0
    _period: float = REMOVAL_PERIOD
    _before: int = field(default=0)

    def timeout(self) -> float:
        """Seconds until `look` has work."""
        return max(0.0, self._due - self.clock())

    def look(self) -> None:
        """Start an attempt when it is due and there is something to remove."""
        if self.pidfd >= 0 or self.clock() < self._due:
            return
        self._before = self._count()
        self._due = self.clock() + self._period
        if self._before:
            self._pid = self.fork(self._work)
            self.pidfd = os.pidfd_open(self._pid)
            self.poll.register(self.pidfd, select.POLLIN)

    def take(self, descriptor: int) -> bool:
        """Whether the descriptor reports the end of the attempt, which is then recorded."""
        if descriptor != self.pidfd or descriptor < 0:
            return False
        self.poll.unregister(self.pidfd)
        self.leave()
        os.waitpid(self._pid, 0)
        left = self._count()
        self._period = (
            REMOVAL_PERIOD
            if left < self._before or not left
            else min(2 * self._period, LONGEST_REMOVAL_PERIOD)
        )
        self._due = self.clock() + self._period
        return True

    def leave(self) -> None:
        """Close descriptors that a forked process must not hold."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def _count(self) -> int:
        return sum(len(removal.waiting(directory)) for directory in self.places)

    def _work(self) -> int:
        linux.end_with_parent()
        os.nice(_LOWEST)
        for directory in self.places:
            removal.retry(directory)
        return 0
