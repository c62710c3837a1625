"""Decides once for each event which of the users who listen may read it.

Listeners of one user share the decision, and one query decides about all users and all events that
were published since the last one: what nobody may read wakes nobody. A decision is made when the
event comes; a listener who is so far behind that it is older than `event_reader.FRESH` asks again.
Admins and dispatchers get all events at once (`event_bus`).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from lading.api.events.listeners import LogEvent
from lading.api.services import ApiServices
from lading.core.errors import Unavailable
from lading.process.telemetry import event as tell
from lading.store import event_audiences

# Events of one query.
_AT_ONCE: Final = 200
# Further tries after the database failed; then the listeners are dropped, and come back.
_TRIES: Final = 3
_PAUSE: Final = 0.2
_logger = logging.getLogger("lading.api.events.audiences")


class Audiences:
    """Hands events to the listeners of the users who may read them."""

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    async def run(self) -> None:
        """Work until cancelled."""
        bus = self._services.events.bus
        while True:
            await bus.until_undecided()
            await self.hand_out(bus.take_undecided(_AT_ONCE))

    async def hand_out(self, events: list[LogEvent]) -> None:
        """Decide about some events, and hand them to those who may read them."""
        bus = self._services.events.bus
        try:
            readers = await self._decide(events)
        except Unavailable as error:
            tell(_logger, "listeners dropped", why=error)
            bus.lose_audiences(events[-1])
            return
        decided_at = asyncio.get_running_loop().time()
        for event in events:
            bus.hand_out(event, readers.get(event.id, set()), decided_at=decided_at)

    async def _decide(self, events: list[LogEvent]) -> dict[int, set[str]]:
        services = self._services
        left = _TRIES
        while True:
            users = services.events.bus.users
            # What no filter wants is not asked about.
            numbers = [event.id for event in events if services.events.bus.is_wanted(event)]
            if not users or not numbers:
                return {}
            try:
                async with services.database.reading() as tx:
                    return await event_audiences.readers_of(
                        tx, tx.dialect, numbers, users, now=services.clock.now()
                    )
            except Unavailable:
                left -= 1
                if not left:
                    raise
            await asyncio.sleep(_PAUSE)
