"""Shells that are open on pages: their number, and how often their right to be open is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from lading.core.errors import Unavailable

# Each open shell has a connection and buffers in the server.
_MOST: Final = 200
_MOST_OF_SESSION: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellChecks:
    """Seconds between two checks of an open shell."""

    session: float = 1.0
    """Whether its login still is."""
    permission: float = 15.0
    """Whether its user may still enter the container."""


class OpenShells:
    """Counts the open shells of each session."""

    def __init__(self, checks: ShellChecks) -> None:
        self.checks = checks
        self._open: Counter[str] = Counter()

    @contextmanager
    def enter(self, session: str) -> Generator[None]:
        """Count one shell of the session with this secret. Raises Unavailable beyond the limits."""
        if self._open[session] >= _MOST_OF_SESSION:
            raise Unavailable(f"{_MOST_OF_SESSION} shells of this login are open; close some")
        if self._open.total() >= _MOST:
            raise Unavailable(f"{_MOST} shells are open on this server; try again later")
        self._open[session] += 1
        try:
            yield
        finally:
            self._open[session] -= 1
            if not self._open[session]:
                del self._open[session]
