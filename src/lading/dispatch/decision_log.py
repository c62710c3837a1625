"""Decisions of this dispatcher that are still to be written to `logs`.

Source: docs/spec/dispatch, section Reports.

The rows are written by the server, many with one request, together with the scheduling statuses: a
container costs no call of its own. Each entry has the moment on the loop's clock; the server makes
times of their ages. Unwritten decisions are lost with the process: state is in the records and
processes, these rows only explain it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lading.core.containers.container import DecisionKind

BATCH = 500
"""Decisions in one request, so that a request stays below 200 KB."""
_MOST = 20_000
"""Decisions kept while the API cannot be reached, some 10 MB; of more the oldest are lost."""


@dataclass(frozen=True, slots=True)
class DecisionEntry:
    """One decision about one container, in words. `waited`: what it had waited for, "" where that
    is not told.
    """

    uuid: str
    decision: DecisionKind
    text: str
    at: float
    waited: str = ""


class DecisionLog:
    """The decisions that are still to be written."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: deque[DecisionEntry] = deque(maxlen=_MOST)
        self.on_entry: Callable[[], None] = lambda: None

    def note(self, uuid: str, decision: DecisionKind, text: str, *, waited: str = "") -> None:
        """Remember a decision."""
        self._entries.append(DecisionEntry(uuid, decision, text, self._clock(), waited))
        self.on_entry()

    def take(self) -> list[DecisionEntry]:
        """The oldest ones, up to BATCH."""
        return [self._entries.popleft() for _ in range(min(BATCH, len(self._entries)))]

    def put_back(self, entries: Sequence[DecisionEntry]) -> None:
        """Keep decisions that could not be written for the next report."""
        self._entries.extendleft(reversed(entries))

    def shown(self, entries: Sequence[DecisionEntry]) -> list[dict[str, object]]:
        """Items of the request to the server."""
        now = self._clock()
        return [
            {
                "container_uuid": one.uuid,
                "event_type": one.decision.value,
                "text": one.text,
                "age": max(0.0, now - one.at),
                **({"waited": one.waited} if one.waited else {}),
            }
            for one in entries
        ]

    def __len__(self) -> int:
        return len(self._entries)
