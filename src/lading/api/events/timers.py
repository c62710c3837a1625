"""Work that is due at a time: timers of requests, and the sweep of the trash and of old rows.

- When a request expires, or may start, the priority of its container is computed anew. The
  dispatcher then stops the container, or starts it.
- Containers whose dispatcher's token has ended are given back or ended.
- When the money of a quota is there again, in its next period, its first requests are looked at.
- A Committed request without a container, whose git repository was still being fetched at the
  commit, gets its container, or ends with the reason why it can have none.
- The sweep deletes collections and projects whose time in the trash is over, expired tokens, old
  live logs, old log rows, and git mirrors beyond their size limit.

Each process of a server does this work; the first one does it, the others find nothing left to do.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Final

from lading.api.fair_shares import forget_before, of, retire
from lading.api.http import ApiCall, ApiResponse
from lading.api.logins.authentication import committer
from lading.api.mounts import mount_contents
from lading.api.mounts.git_cache import GIT
from lading.api.resources import groups
from lading.api.resources.container_endings import end_orphans
from lading.api.resources.repositories import look_up
from lading.api.server.machine_board import CAPACITY, MACHINES
from lading.api.server.upkeep import UPKEEP
from lading.api.services import ApiServices
from lading.api.transaction import UnitOfWork
from lading.core.containers import request, request_phases
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Conflict, Invalid, Unavailable
from lading.core.quantities import format_time, parse_time
from lading.core.records import access
from lading.core.records.container_types import REQUESTS
from lading.core.records.schema import Record
from lading.process.concurrency import together
from lading.process.telemetry import event
from lading.store import (
    cancellations,
    fair_shares,
    learned,
    quota_waits,
    records,
    run_times,
    upkeep,
)
from lading.store.background_work import WorkLoop
from lading.store.cascades import AT_ONCE
from lading.store.containers import waiting

LONGEST: Final = 10.0
"""Seconds after which due times are looked up again: another process may have stored an earlier
one.
"""
# Requests that are read, and looked at, at a time.
_BATCH: Final = 20
# A lesson about a tool is deleted when it was not learned anew for so long.
_LESSONS_LAST: Final = timedelta(days=400)
# A cancellation of many requests is shown for so long after its end.
_CANCELLATIONS_LAST: Final = timedelta(days=7)
_logger = logging.getLogger("lading.api.events.timers")


async def act(services: ApiServices) -> str | None:
    """Do the work that is due; the time of the next timer, or None."""
    now = services.clock.now()
    async with services.database.reading() as tx:
        # Read first: most looks find nothing, and a write transaction would hold up the others.
        due = await waiting.outdated(tx, now)
        upcoming = await waiting.next_moment(tx, now)
        subjects = await quota_waits.due(tx, now)
    # Some in a transaction, as each has many requests: others write between two.
    for start in range(0, len(due), AT_ONCE):
        async with services.database.writing() as tx:
            unit = UnitOfWork(tx, services, user_uuid=services.ids.system_user)
            unit.stale(due[start : start + AT_ONCE])
            await unit.settle()
    for subject in subjects:
        async with services.database.writing() as tx:
            unit = UnitOfWork(tx, services, user_uuid=services.ids.system_user)
            await quota_waits.clear_due(tx, subject, now)
            unit.touch([subject])
            await unit.settle()
    await _keep_shares(services)
    await end_orphans(services)
    async with services.database.reading() as tx:
        # After the work: a quota may have more to give, or money again in the next period.
        again = await quota_waits.next_due(tx)
    return min((moment for moment in (upcoming, again) if moment is not None), default=None)


async def _keep_shares(services: ApiServices) -> None:
    """Charge containers that are held for longer than was expected; without fair share, end what an
    earlier configuration left.
    """
    is_on, now = services.config.Containers.FairShare.Enabled, services.clock.time().timestamp()
    async with services.database.reading() as tx:
        is_due = (
            await fair_shares.overdue(tx, round(now * 1000), most=1)
            if is_on
            else await fair_shares.waiting(tx, most=1)
        )
    if is_on:
        await services.features[CAPACITY].refresh(services.features[MACHINES], services.clock.now())
    if is_due:
        async with services.database.writing() as tx:
            unit = UnitOfWork(tx, services, user_uuid=services.ids.system_user)
            if is_on:
                await of(unit).prolong()
            else:
                await retire(unit)
                await unit.settle()


async def keep_time(services: ApiServices) -> None:
    """Do the work of every timer, until cancelled."""
    upcoming: str | None = None

    async def step() -> None:
        nonlocal upcoming
        upcoming = None
        upcoming = await act(services)

    async def rest(_: float) -> None:
        pause = LONGEST
        if upcoming is not None:
            left = (parse_time(upcoming) - services.clock.time()).total_seconds()
            # A moment that has passed meanwhile must not make this a busy loop.
            pause = min(LONGEST, max(0.001, left))
        await services.events.wakeups.until_moment(pause)

    await WorkLoop(_logger, "moment missed").run(step, rest)


async def seek(services: ApiServices) -> int:
    """Find the containers of all requests that wait for a git repository, or whose inputs have
    become known; the number of requests that still wait.

    Requests that are read together are checked concurrently, each for a few seconds at most: a git
    server that hangs does not delay the others. Its search goes on, and the next call finds it.
    """
    seen_uuids, left = set[str](), 0

    async def look(uuid: str) -> None:
        nonlocal left
        try:
            is_found = await _satisfy(services, uuid)
        except (Unavailable, Conflict) as error:
            is_found = False
            event(_logger, "container not found yet", request=uuid, why=error)
        left += not is_found

    while True:
        async with services.database.reading() as tx:
            # Requests that still wait are read again, before the others.
            uuids = await waiting.resolving(tx, limit=_BATCH + len(seen_uuids))
        if not (new := [uuid for uuid in uuids if uuid not in seen_uuids]):
            return left
        await together(*(look(uuid) for uuid in new))
        seen_uuids.update(new)


async def seek_for_ever(services: ApiServices) -> None:
    """Call `seek` whenever a request begins to wait, and at intervals, until cancelled."""
    left = 1

    async def step() -> None:
        nonlocal left
        left = 1
        left = await seek(services)

    async def rest(_: float) -> None:
        # Another server of the same database may have stored one without waking this process.
        await services.events.wakeups.until_sought(LONGEST if left else 6 * LONGEST)

    await WorkLoop(_logger, "search failed").run(step, rest)


async def _satisfy(services: ApiServices, uuid: str) -> bool:
    async with services.database.reading() as tx:
        row = await records.get(tx, REQUESTS, uuid)
        if row is None or not _sought(row):
            return True
        principal = await committer(tx, services.ids, row)
    fault, trees = "", None
    # Before the write transaction, which waits for nothing but the database.
    await mount_contents.look_up(services, principal, [row["mounts"]])
    try:
        patience = services.config.Containers.ResolveTimeout
        trees = await look_up(
            services, ContainerRequest.from_record(row), principal, patience=patience
        )
        if trees is None:
            return False
    except Invalid as error:
        fault = error.message
    async with services.database.writing() as tx:
        unit = UnitOfWork(tx, services, user_uuid=principal.user_uuid)
        row = await records.get(tx, REQUESTS, uuid)
        if row is None or not _sought(row):
            return True
        try:
            if not fault:
                # From the row that was read again: the user may have cancelled or changed the
                # request during the search.
                change = request.satisfy(ContainerRequest.from_record(row), policy=services.policy)
                change = await unit.commit(change, principal, trees)
                await unit.change_request(row, change)
        except Invalid as error:
            fault = error.message
        if fault:
            await unit.fail(row, fault)
        await unit.settle()
    return True


def _sought(row: Record) -> bool:
    return (
        bool(row["resolving"])
        and row["state"] == request_phases.RequestState.COMMITTED
        and row["container_uuid"] is None
    )


async def sweep(services: ApiServices) -> None:
    """Sweep once."""
    yesterday = format_time(services.clock.time() - timedelta(days=1))
    async with services.database.writing() as tx:
        due = await upkeep.due_groups(tx, services.clock.now())
        marked, deleted, ended = await upkeep.sweep(
            tx, now=services.clock.now(), tokens_before=yesterday
        )
        await groups.follow_trashed(tx, services, due)
        lessons_before = format_time(services.clock.time() - _LESSONS_LAST)
        await learned.forget(tx, before=lessons_before)
        await run_times.forget(tx, before=lessons_before)
        await cancellations.forget(
            tx, before=format_time(services.clock.time() - _CANCELLATIONS_LAST)
        )
        half_life = services.config.Containers.FairShare.HalfLife
        await fair_shares.forget(
            tx,
            seen_before=forget_before(services.clock.time(), half_life),
        )
    await groups.delete_expired(services)
    await keep_the_trail_short(services)
    lifetime = services.config.Collections.DefaultTrashLifetime
    # As long as a deleted collection would be kept.
    spools = await asyncio.to_thread(
        services.access.spool.expire, services.clock.time().timestamp() - lifetime
    )
    mirrors = await services.features[GIT].shrink(services.clock.time().timestamp())
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
    uses, settings = services.features[UPKEEP].take(), services.config.AuditLogs
    if uses:
        async with services.database.writing() as tx:
            await upkeep.mark_used(tx, uses)
    before = format_time(services.clock.time() - timedelta(seconds=settings.MaxAge))
    total, more = 0, settings.MaxAge > 0 and settings.MaxDeleteBatch > 0
    while more:
        async with services.database.writing() as tx:
            reached, deleted, more = await upkeep.prune_logs(
                tx,
                after=services.features[UPKEEP].shortened_to,
                before=before,
                limit=settings.MaxDeleteBatch,
            )
        # A batch a transaction: others write between two of them.
        services.features[UPKEEP].shortened_to, total = reached, total + deleted
    if total:
        event(_logger, "trail shortened", rows=total)
    return total


async def sweep_for_ever(services: ApiServices) -> None:
    """Sweep after every Collections.TrashSweepInterval, until cancelled."""

    async def step() -> None:
        await asyncio.sleep(services.config.Collections.TrashSweepInterval)
        await sweep(services)

    await WorkLoop(_logger, "sweep failed").run(step)
