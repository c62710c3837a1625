"""Wait statuses: why each container waits, and when each dispatcher last reported.

A dispatcher reports changes, and everything again after a broken connection; a server that is alone
therefore keeps the statuses in memory. Servers that share a database store them there, so that each
of them gives the same answer. The statuses of a dispatcher that has been silent for longer than
SILENCE do not count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from lading.api.server.features import FeatureKey
from lading.core.quantities import format_time, parse_time
from lading.core.scheduling.wait_reasons import WaitReason
from lading.store import statuses
from lading.store.database import Database, Transaction

SILENCE: Final = timedelta(minutes=3)


@dataclass(frozen=True, slots=True)
class StatusCounts:
    """Number of statuses by reason, and of the dispatchers that have not been silent."""

    reasons: Mapping[str, int]
    dispatchers: int


class Statuses(Protocol):
    """A store of statuses. Times are texts in the API's format."""

    async def report(
        self, dispatcher_uuid: str, items: Mapping[str, WaitReason | None], now: str
    ) -> None:
        """Store the statuses that a dispatcher reports about containers; None withdraws a
        status.
        """

    async def about(self, tx: Transaction, container_uuid: str, now: str) -> list[WaitReason]:
        """The statuses of a container from dispatchers that have not been silent."""

    async def last_report(self, tx: Transaction) -> str | None:
        """Time of the latest report from any dispatcher; None before the first."""

    async def counts(self, tx: Transaction, now: str) -> StatusCounts:
        """Numbers of the statuses that count, without reading them where that is possible."""

    async def forget(self, tx: Transaction, container_uuids: Collection[str]) -> None:
        """Delete the statuses of containers once the transaction is committed."""


class OwnStatuses:
    """Statuses in the memory of the only server process."""

    def __init__(self) -> None:
        self._statuses: defaultdict[str, dict[str, WaitReason]] = defaultdict(dict)
        # By dispatcher; kept, so that a scrape of the metrics does not count all containers.
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._reported: dict[str, str] = {}

    async def report(
        self, dispatcher_uuid: str, items: Mapping[str, WaitReason | None], now: str
    ) -> None:
        """Keep the statuses."""
        self._reported[dispatcher_uuid] = now
        counts = self._counts[dispatcher_uuid]
        for uuid, status in items.items():
            if (former := self._statuses[uuid].pop(dispatcher_uuid, None)) is not None:
                counts[former.reason] -= 1
            if status is not None:
                self._statuses[uuid][dispatcher_uuid] = status
                counts[status.reason] += 1
            elif not self._statuses[uuid]:
                del self._statuses[uuid]

    async def about(self, tx: Transaction, container_uuid: str, now: str) -> list[WaitReason]:
        """The statuses of the container that count."""
        del tx
        since = believed_since(now)
        statuses = self._statuses.get(container_uuid, {})
        return [
            status
            for dispatcher, status in sorted(statuses.items())
            if self._reported[dispatcher] >= since
        ]

    async def last_report(self, tx: Transaction) -> str | None:
        """Time of the latest report from any dispatcher."""
        del tx
        return max(self._reported.values(), default=None)

    async def counts(self, tx: Transaction, now: str) -> StatusCounts:
        """Sum of the kept numbers."""
        del tx
        since = believed_since(now)
        active = [uuid for uuid, at in self._reported.items() if at >= since]
        return StatusCounts(sum((self._counts[uuid] for uuid in active), Counter()), len(active))

    async def forget(self, tx: Transaction, container_uuids: Collection[str]) -> None:
        """Delete the statuses after the commit."""
        tx.after_commit(lambda: self._drop(container_uuids))

    def _drop(self, container_uuids: Collection[str]) -> None:
        for uuid in container_uuids:
            for dispatcher, status in self._statuses.pop(uuid, {}).items():
                self._counts[dispatcher][status.reason] -= 1


class SharedStatuses:
    """Statuses in the database that several server processes share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def report(
        self, dispatcher_uuid: str, items: Mapping[str, WaitReason | None], now: str
    ) -> None:
        """Store the statuses."""
        async with self._database.writing() as tx:
            await statuses.note_report(tx, dispatcher_uuid, now)
            await statuses.put_statuses(
                tx,
                dispatcher_uuid,
                {uuid: status for uuid, status in items.items() if status is not None},
            )
            await statuses.take_back_statuses(
                tx, dispatcher_uuid, [uuid for uuid, status in items.items() if status is None]
            )

    async def about(self, tx: Transaction, container_uuid: str, now: str) -> list[WaitReason]:
        """The statuses of the container that count."""
        return await statuses.statuses_of(tx, container_uuid, since=believed_since(now))

    async def last_report(self, tx: Transaction) -> str | None:
        """Time of the latest report from any dispatcher."""
        return await statuses.last_report(tx)

    async def counts(self, tx: Transaction, now: str) -> StatusCounts:
        """Numbers from the tables of waiting containers and of dispatchers."""
        return StatusCounts(*await statuses.count_statuses(tx, since=believed_since(now)))

    async def forget(self, tx: Transaction, container_uuids: Collection[str]) -> None:
        """Delete the statuses in the transaction."""
        await statuses.forget_statuses(tx, self._database.dialect, container_uuids)


def believed_since(now: str) -> str:
    """Time of the oldest report that counts: dispatchers without a later one have been silent."""
    return format_time(parse_time(now) - SILENCE)


STATUSES: Final = FeatureKey[Statuses]("statuses of dispatchers")
