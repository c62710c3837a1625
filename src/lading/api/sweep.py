"""The sweep: deletes collections and projects whose time in the trash is over, expired tokens, old
live logs, old log rows, and git mirrors beyond their size limit.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import groups
from lading.api.services import ApiServices
from lading.core.errors import Unavailable
from lading.core.quantities import format_time
from lading.core.records import access
from lading.store import upkeep
from lading.telemetry import event

_logger = logging.getLogger("lading.api.sweep")


async def sweep(services: ApiServices) -> None:
    """Sweep once."""
    yesterday = format_time(services.clock() - timedelta(days=1))
    async with services.database.writing() as tx:
        due = await upkeep.due_groups(tx, services.now())
        marked, deleted, ended = await upkeep.sweep(tx, now=services.now(), tokens_before=yesterday)
        await groups.follow_trashed(tx, services, due)
        await groups.delete_expired(tx, services)
    await keep_the_trail_short(services)
    lifetime = services.config.Collections.DefaultTrashLifetime
    spools = await asyncio.to_thread(services.spool.expire, services.clock().timestamp() - lifetime)
    mirrors = await services.git.shrink(services.clock().timestamp())
    if marked or deleted or ended or spools or mirrors:
        event(
            _logger,
            "swept",
            trashed=marked,
            deleted=deleted,
            tokens=ended,
            spools=spools,
            mirrors=mirrors,
        )


async def sweep_now(call: ApiCall) -> ApiResponse:
    """Sweep at once, for an admin; 204 when it is done.

    Source: docs/spec/api, section Addresses and methods.
    """
    access.check_admin(call.caller, "sweep the trash")
    await sweep(call.services)
    return ApiResponse(body=b"", status=204)


async def keep_the_trail_short(services: ApiServices) -> int:
    """Store the times at which tokens were used, and delete log rows older than AuditLogs.MaxAge;
    the number of deleted rows.
    """
    uses, settings = services.upkeep.take(), services.config.AuditLogs
    if uses:
        async with services.database.writing() as tx:
            await upkeep.mark_used(tx, uses)
    before = format_time(services.clock() - timedelta(seconds=settings.MaxAge))
    total, more = 0, settings.MaxAge > 0 and settings.MaxDeleteBatch > 0
    while more:
        async with services.database.writing() as tx:
            reached, deleted, more = await upkeep.prune_logs(
                tx, after=services.upkeep.shortened_to, before=before, limit=settings.MaxDeleteBatch
            )
        services.upkeep.shortened_to, total = reached, total + deleted
    if total:
        event(_logger, "trail shortened", rows=total)
    return total


async def sweep_for_ever(services: ApiServices) -> None:
    """Sweep after every Collections.TrashSweepInterval, until cancelled."""
    while True:
        await asyncio.sleep(services.config.Collections.TrashSweepInterval)
        try:
            await sweep(services)
        except Unavailable as error:
            event(_logger, "sweep failed", error=error)
