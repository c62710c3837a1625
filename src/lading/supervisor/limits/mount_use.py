"""Use of single tmp mounts: which of them hold more than their own capacity.

The limits of the kernel and `disk_limits` count all mounts together, as clients ask for capacities
by guess. A mount that outgrows its own is named in a warning of the record. It is measured when the
command has ended, and whenever the container is measured.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from lading.core.containers.disk_space import Amount
from lading.process.cancellation import Stopped
from lading.supervisor.limits.disk_usage import measure

# Seconds of a measurement; a mount that takes longer is not judged.
_LONGEST = 2.0


class MountUse:
    """The mounts with a capacity of their own. `directories` and `capacities` (bytes) by target."""

    def __init__(
        self,
        directories: Mapping[str, Path],
        capacities: Mapping[str, int],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directories, self._capacities = directories, capacities
        self._left = {target: capacities[target] for target in capacities if target in directories}
        self._clock = clock
        self.overfull: dict[str, int] = {}
        """The mounts that held more than their capacity when they were measured."""

    def exclude_copies(self) -> None:
        """Do not count the present content: copies of collections are not charged. Raises
        OSError.
        """
        for target, capacity in list(self._left.items()):
            try:
                self._left[target] = capacity + self._measure(target, 0)
            except Stopped:
                del self._left[target]

    def look(self) -> None:
        """Measure the mounts that were within their capacity so far. Raises OSError."""
        for target, most in list(self._left.items()):
            with contextlib.suppress(Stopped):
                if self._measure(target, most) > most:
                    # A measurement beside this one may have removed it.
                    self._left.pop(target, None)
                    self.overfull[target] = self._capacities[target]

    def _measure(self, target: str, most: int) -> int:
        """Bytes of a mount on its disk; with more than `most` (0 is no limit) some of them. Raises
        Stopped when it takes too long.
        """
        until = self._clock() + _LONGEST
        uses = measure(
            [self._directories[target]], most=Amount(most), stop=lambda: self._clock() > until
        )
        return sum(use.size for use in uses.values())
