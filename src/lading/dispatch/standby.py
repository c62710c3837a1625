"""Before a fleet is known nothing is decided; meanwhile containers that wait are told why.

A cloud that cannot be reached, or VMs of an earlier dispatcher that do not answer, can take long: the reason is logged
when it is new, and posted as the status of the containers at the head of the queue. The board replaces it later.
"""

from __future__ import annotations

import asyncio
import logging

from lading.client.api import ApiClient
from lading.core.errors import LadingError
from lading.core.plan import Category
from lading.dispatch.fleet import Fleet
from lading.telemetry import event

_logger = logging.getLogger("lading.dispatch")
_MOST = 100


async def until_known(client: ApiClient, fleet: Fleet, *, interval: float) -> None:
    """Wait until the fleet is known. Raises what the fleet does when it cannot become so."""
    telling = asyncio.create_task(_tell_again_and_again(client, fleet, interval), name="standby")
    try:
        while not fleet.view().known:
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
    found = await client.list("containers", filters=filters, order=["priority desc"], select=["uuid"], limit=_MOST)
    status = {"reason": Category.CAPACITY, "sentence": f"The dispatcher cannot decide yet: {why}."}
    items = {str(one["uuid"]): status for one in found}
    if items:
        await client.request("POST", "dispatch/statuses", body={"items": items, "events": []})
