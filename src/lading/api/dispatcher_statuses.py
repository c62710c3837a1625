"""What dispatchers last said about the containers that wait, and whether there is a dispatcher at
all.

They say it when it changes and all of it again after a broken connection, so a server that is alone
keeps it in memory. Servers that share a database keep it there: whichever is asked, the answer is
the same. A dispatcher that has been silent for longer than SILENCE is not believed any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Protocol

from lading.core.scheduling.wait_reasons import Said
from lading.core.timestamps import format_time, parse_time
from lading.store import statuses
from lading.store.database import Database, Transaction

SILENCE: Final = timedelta(minutes=3)


class Statuses(Protocol):
    """Where it is kept. Times are the API's text."""

    async def report(
        self, dispatcher_uuid: str, items: Mapping[str, Said | None], now: str
    ) -> None:
        """Remember what a dispatcher says about containers; None takes back what it said."""
        ...

    async def about(self, tx: Transaction, container_uuid: str, now: str) -> list[Said]:
        """What the dispatchers that are at work say about a container."""
        ...

    async def last_report(self, tx: Transaction) -> str | None:
        """When any dispatcher last reported; None is never."""
        ...

    async def forget(self, tx: Transaction, container_uuid: str) -> None:
        """Forget what was said about a container, once the transaction is committed."""
        ...


class OwnStatuses:
    """In the memory of the only server process."""

    def __init__(self) -> None:
        self._said: defaultdict[str, dict[str, Said]] = defaultdict(dict)
        self._reported: dict[str, str] = {}

    async def report(
        self, dispatcher_uuid: str, items: Mapping[str, Said | None], now: str
    ) -> None:
        """Remember it."""
        self._reported[dispatcher_uuid] = now
        for uuid, one in items.items():
            if one is not None:
                self._said[uuid][dispatcher_uuid] = one
            elif self._said[uuid].pop(dispatcher_uuid, None) is None or not self._said[uuid]:
                del self._said[uuid]

    async def about(self, tx: Transaction, container_uuid: str, now: str) -> list[Said]:
        """What is believed."""
        del tx
        since = believed_since(now)
        said = self._said.get(container_uuid, {})
        return [
            one for dispatcher, one in sorted(said.items()) if self._reported[dispatcher] >= since
        ]

    async def last_report(self, tx: Transaction) -> str | None:
        """The last of all."""
        del tx
        return max(self._reported.values(), default=None)

    async def forget(self, tx: Transaction, container_uuid: str) -> None:
        """Later, if ever."""
        tx.after_commit(lambda: self._drop(container_uuid))

    def _drop(self, container_uuid: str) -> None:
        self._said.pop(container_uuid, None)


class SharedStatuses:
    """In the database that several server processes share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def report(
        self, dispatcher_uuid: str, items: Mapping[str, Said | None], now: str
    ) -> None:
        """Store it."""
        async with self._database.writing() as tx:
            await statuses.report(tx, dispatcher_uuid, now)
            await statuses.put(
                tx, dispatcher_uuid, {uuid: one for uuid, one in items.items() if one is not None}
            )
            await statuses.take_back(
                tx, dispatcher_uuid, [uuid for uuid, one in items.items() if one is None]
            )

    async def about(self, tx: Transaction, container_uuid: str, now: str) -> list[Said]:
        """What is believed."""
        return await statuses.about(tx, container_uuid, since=believed_since(now))

    async def last_report(self, tx: Transaction) -> str | None:
        """The last of all."""
        return await statuses.last_report(tx)

    async def forget(self, tx: Transaction, container_uuid: str) -> None:
        """With the transaction."""
        await statuses.forget(tx, container_uuid)


def believed_since(now: str) -> str:
    """A dispatcher whose last report is older than this is not believed."""
    return format_time(parse_time(now) - SILENCE)
