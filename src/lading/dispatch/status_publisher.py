"""Reports to the API: why containers wait, and the decisions of this dispatcher.

`StatusPublisher` sends changes only, at most once per interval. All statuses are sent again after
the connection to the API was lost: the API may be another process, or may have lost them. An empty
status withdraws one. An empty report, at intervals, shows that this dispatcher is active.
Containers that no worker can hold are named (`misfits`) when they are new, and with each such
report.

`DecisionLog` holds the decisions that are still to be written to `logs`. The server writes the
rows, many with one request, together with the statuses: a container costs no call of its own. Each
entry has a time on the loop's clock; the server makes times from their ages. Unwritten decisions
are lost with the process: state is in the records and processes, these rows only explain it.

Source: docs/spec/dispatch, section Reports.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from lading.client.api import ApiClient
from lading.core.containers.container import DecisionKind
from lading.core.errors import Conflict, LadingError
from lading.core.scheduling.planning import WaitStatus
from lading.process.telemetry import event

_logger = logging.getLogger("lading.dispatch")
BATCH = 500
"""Decisions in one request, so that a request stays below 200 KB."""
# Decisions kept while the API cannot be reached, some 10 MB; of more the oldest are lost.
_MOST = 20_000


class StatusPublisher:
    """Publishes what `look` returns (statuses by container uuid) when `mark` reports that it may
    have changed.

    `interval` is the shortest time between two posts, `longest` the longest, in seconds. The
    decisions that are not posted yet go with them.
    """

    def __init__(
        self,
        client: ApiClient,
        look: Callable[[], Mapping[str, WaitStatus]],
        decisions: DecisionLog,
        *,
        interval: float,
        longest: float = 60.0,
        misfits: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._client = client
        self._misfits = misfits
        self._named: frozenset[str] = frozenset()
        self._look = look
        self._decisions = decisions
        decisions.on_entry = self.mark
        self._interval = interval
        self._longest = longest
        self._posted: dict[str, WaitStatus] = {}
        self._reported = False
        self._due = 0.0
        self._stale = asyncio.Event()

    def mark(self) -> None:
        """The statuses may have changed."""
        self._stale.set()

    def repeat(self) -> None:
        """The API may have lost the reports: send everything again."""
        self._posted.clear()
        self._reported = False
        self._stale.set()

    async def publish(self) -> None:
        """Post changes for ever. Raises Conflict when another dispatcher has taken over the
        token.
        """
        clock = asyncio.get_running_loop().time
        self._due = clock() + self._longest
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._due):
                    await self._stale.wait()
            # A report is due although nothing changed: it shows that this dispatcher is there.
            # Marks do not put it off, since most of them change nothing.
            if clock() >= self._due:
                self._reported = False
            # Cleared before the post: a change that comes meanwhile leads to another post.
            self._stale.clear()
            try:
                await self.post()
            except Conflict:
                raise
            except LadingError as error:
                event(_logger, "statuses not posted", why=error)
                self._stale.set()
            # The interval follows each post, so that a burst of changes becomes one request.
            await asyncio.sleep(self._interval)

    async def post(self) -> None:
        """Post the changes since the last time, or an empty report if one is due. Raises the errors
        of the client.
        """
        current = dict(self._look())
        changed = {
            uuid: status for uuid, status in current.items() if self._posted.get(uuid) != status
        }
        items: dict[str, object] = {
            uuid: {"reason": status.category, "sentence": status.sentence}
            for uuid, status in changed.items()
        }
        # Containers that have begun, or are gone: an empty text withdraws their status.
        items |= {uuid: "" for uuid in self._posted if uuid not in current}
        misfits = frozenset(self._misfits())
        named = sorted(misfits - self._named if self._reported else misfits)
        entries = self._decisions.take()
        if not items and not entries and not named and self._reported:
            return
        try:
            body = {
                "items": items,
                "events": self._decisions.shown(entries),
                "misfits": named,
            }
            await self._client.request("POST", "dispatch/statuses", body=body)
        except BaseException:
            # The report may not have been received: the same decisions go with the next one.
            self._decisions.put_back(entries)
            raise
        self._posted, self._reported, self._named = current, True, misfits
        self._due = asyncio.get_running_loop().time() + self._longest
        # More decisions are waiting than one request takes.
        if len(self._decisions):
            self.mark()


@dataclass(frozen=True, slots=True)
class DecisionEntry:
    """One decision about one container, in words. `waited`: its past waits in words, "" where they
    are not reported.
    """

    uuid: str
    decision: DecisionKind
    sentence: str
    at: float
    waited: str = ""


class DecisionLog:
    """The decisions that are still to be written."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: deque[DecisionEntry] = deque(maxlen=_MOST)
        self.on_entry: Callable[[], None] = lambda: None

    def note(self, uuid: str, decision: DecisionKind, sentence: str, *, waited: str = "") -> None:
        """Remember a decision."""
        self._entries.append(DecisionEntry(uuid, decision, sentence, self._clock(), waited))
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
                "container_uuid": entry.uuid,
                "event_type": entry.decision.value,
                "text": entry.sentence,
                "age": max(0.0, now - entry.at),
                **({"waited": entry.waited} if entry.waited else {}),
            }
            for entry in entries
        ]

    def __len__(self) -> int:
        return len(self._entries)
