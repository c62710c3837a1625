"""Before a fleet is known nothing is decided; meanwhile the containers that wait get the reason as
their status.

A cloud or a batch system that cannot be reached can take long. The dispatcher is ready all the
same: the reason is logged when it is new, and posted for the containers at the head of the queue.
The board replaces it later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from lading.client.api import ApiClient
from lading.core.errors import LadingError
from lading.core.scheduling.batch_planner import Category
from lading.dispatch.fleet import Fleet
from lading.telemetry import event

_logger = logging.getLogger("lading.dispatch")
# Containers that get the reason, those of the highest priority.
_MOST = 100


async def until_known(
    client: ApiClient,
    fleet: Fleet,
    *,
    interval: float,
    on_trouble: Callable[[], None] = lambda: None,
) -> None:
    """Wait until the fleet is known. Raises what the fleet does when it cannot become so.

    `on_trouble` is called whenever the fleet says why it is not known yet.
    """
    telling = asyncio.create_task(_tell_again_and_again(client, fleet, interval), name="standby")
    try:
        while not (view := fleet.view()).known:
            if view.trouble:
                on_trouble()
            await fleet.changed()
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell_again_and_again(client: ApiClient, fleet: Fleet, interval: float) -> None:
    told = ""
    while True:
        await asyncio.sleep(interval)
        why = fleet.view().trouble
        if not why:
            continue
        if why != told:
            event(_logger, "dispatcher waits", why=why)
            told = why
        try:
            await _tell(client, why)
        except LadingError as error:
            event(_logger, "statuses not posted", why=error)


async def _tell(client: ApiClient, why: str) -> None:
    filters = [["state", "=", "Queued"], ["priority", ">", 0]]
    found = await client.list(
        "containers", filters=filters, order=["priority desc"], select=["uuid"], limit=_MOST
    )
    status = {"reason": Category.CAPACITY, "sentence": f"The dispatcher cannot decide yet: {why}."}
    items = {str(one["uuid"]): status for one in found}
    if items:
        await client.request("POST", "dispatch/statuses", body={"items": items, "events": []})
