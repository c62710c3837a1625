"""Events of a database that several processes share: events that any of them committed, read from
`logs` in order.

A message of the database says only that there are new rows. The relay reads the rows after the last
one that it has seen, so that no event is missed while its connection was broken. Rows become
visible in the order of their numbers (`store.database`).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import Final

from lading.api.events import audit
from lading.api.services import ApiServices
from lading.core.errors import Unavailable
from lading.core.records.filters import Column, Compare, Query, SortKey
from lading.core.records.record_types import LOGS
from lading.core.records.schema import Type
from lading.store import records
from lading.telemetry import event

# Rows that are read at a time.
_PAGE: Final = 500
# Seconds before another try after the database failed.
_PAUSE: Final = 1.0
_NAMES: Final = tuple(one.name for one in LOGS.columns)
_logger = logging.getLogger("lading.api.events.relay")


async def latest(services: ApiServices) -> int:
    """The number of the last log row; 0 when there is none."""
    query = Query(order=(SortKey("id", descending=True),), select=("id",), limit=1)
    async with services.database.reading() as tx:
        rows = await records.search(tx, services.database.dialect, LOGS, query)
    return int(rows[0]["id"]) if rows else 0


class Relay:
    """Publishes the events that were committed after `start` on the bus of this process.

    `page` rows are read at a time; after a fault the database is asked again `pause` seconds later.
    """

    def __init__(self, services: ApiServices) -> None:
        self.page, self.pause = _PAGE, _PAUSE
        self._services = services
        self._last = 0

    async def start(self) -> None:
        """Remember the last log row: events after it are published."""
        self._last = await latest(self._services)

    async def run(self) -> None:
        """Publish events until cancelled; return at once when the database is not shared."""
        async with aclosing(self._services.database.announcements()) as announcements:
            async for _ in announcements:
                await self._insist()

    async def _insist(self) -> None:
        while True:
            try:
                await self._catch_up()
            except Unavailable as error:
                event(_logger, "events are late", error=error)
                await asyncio.sleep(self.pause)
            else:
                return

    async def _catch_up(self) -> None:
        database, full = self._services.database, True
        while full:
            after = Compare(Column("id", Type.INTEGER), ">", self._last)
            query = Query(where=(after,), order=(SortKey("id"),), select=_NAMES, limit=self.page)
            async with database.reading() as tx:
                rows = await records.search(tx, database.dialect, LOGS, query)
            for row in rows:
                self._last = row["id"]
                if audit.is_event(row):
                    self._services.bus.publish(
                        audit.make_event(row, audit.listened(row["properties"]))
                    )
            full = len(rows) == self.page
