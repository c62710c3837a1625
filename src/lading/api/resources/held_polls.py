"""Polls of `arvados-cwl-runner` that are held until there is something to tell.

The runner listens to no events. It asks for its open requests 12 seconds after it last began to
ask, or at once where the answer took longer (`arvados_cwl/executor.py`, `poll_states`, 3.2.1). So
an answer in which no request has ended only makes it wait: the end of a container is heard up to 12
seconds late. Such a call is held until one of its requests ends, at most for `API.MaxPollHold`. A
poll that was held as long as the runner would wait is followed by the next one at once, so no end
is heard later than without it.

The call is known by its filter and by its nine attributes, which no other known client asks for. An
end that was committed before the call is told at once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from lading.api.http import ApiCall
from lading.api.resources import generic
from lading.core.containers.request_phases import RequestState
from lading.core.records.container_types import REQUESTS
from lading.core.records.expressions import Among, Column, Compare, Either, Query
from lading.core.records.schema import Type
from lading.store import records

SELECT: Final = frozenset(
    (
        "container_uuid",
        "log_uuid",
        "modified_at",
        "output_uuid",
        "priority",
        "properties",
        "runtime_constraints",
        "state",
        "uuid",
    )
)
"""The attributes that the runner asks for."""
_UUID: Final = Column("uuid", Type.STRING)
# What the runner takes for an end: a request that waits with priority 0 was cancelled.
_ENDED: Final = Either(
    (
        Compare(Column("state", Type.STRING), "=", RequestState.FINAL),
        Compare(Column("priority", Type.INTEGER), "=", 0),
    )
)


def polled(query: Query) -> frozenset[str]:
    """The uuids that a poll of `arvados-cwl-runner` asks for; none for any other query."""
    if query.select is None or frozenset(query.select) != SELECT or query.offset:
        return frozenset()
    among = [
        condition
        for condition in query.where
        if isinstance(condition, Among) and condition.target == _UUID
    ]
    return frozenset(str(uuid) for condition in among for uuid in condition.values)


async def wait_for_end(call: ApiCall) -> None:
    """Wait until one of the requests of a poll has ended, at most `API.MaxPollHold` seconds; not at
    all for any other call. Raises Invalid for a query that cannot be read.
    """
    services, limits = call.services, call.services.config.API
    # Half of the time limit is left for the answer itself.
    patience = min(limits.MaxPollHold, limits.RequestTimeout / 2)
    if patience <= 0:
        return
    query = generic.prepare_query(call, REQUESTS)
    uuids = polled(query)
    if not uuids:
        return
    # Listening begins before the look: an end in between is seen by one of them.
    with services.events.bus.listen_for(uuids) as changes, suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while not changes.is_over and not await _has_ended(call, query):
                await changes.wait()


async def _has_ended(call: ApiCall, query: Query) -> bool:
    database = call.services.database
    async with database.reading() as tx:
        query = await generic.narrowed(tx, REQUESTS, query, call.caller)
        return await records.exists(tx, tx.dialect, REQUESTS, (*query.where, _ENDED))
