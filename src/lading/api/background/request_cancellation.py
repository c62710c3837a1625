"""Cancellations of many requests, worked off in the background in short transactions.

A call stores what is to be cancelled (`store.cancellations`), and a task of the server goes through
these requests, the newest first, a page in each transaction. The position is stored in the same
transaction: a server that starts goes on where the last one ended, and nothing is cancelled twice.

Of a page the requests whose cancellation changes nothing else (`core.containers.set_cancellation`)
are changed by few statements for all of them; the records, log rows and events are those that the
call `cancel` makes for each. Further requests of the page are cancelled as that call does it.

Pages have a `PageSize`, and calls that write go before the next page.
While the database changes the requests of one page, the next page is read. It is used if no other
log row has come since: then no record has changed, except by the cancellation itself. Requests that
were cancelled as a set need no container and no other request any more: so what a page says of
others still allows to cancel them as a set.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec

from lading.api.background import cancellation_scope
from lading.api.background.cancellation_scope import principal_of, query_of
from lading.api.background.page_size import PageSize
from lading.api.events import audit
from lading.api.metrics import METRICS
from lading.api.server.wait_statuses import STATUSES
from lading.api.services import ApiServices
from lading.api.transaction import ABANDONED, UnitOfWork
from lading.api.unit import Feature
from lading.core.containers import lifecycle, request
from lading.core.containers.container import ContainerState
from lading.core.containers.request_phases import RequestState
from lading.core.containers.set_cancellation import (
    CancellationStep,
    WaitingRequest,
    plan_step,
)
from lading.core.errors import Conflict, LadingError, Unavailable
from lading.core.quantities import later
from lading.core.records.access import Principal
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import (
    Column,
    Compare,
)
from lading.core.records.pending_cancellations import before
from lading.core.records.schema import Record, RecordType, Type
from lading.process.concurrency import cancel_all, together
from lading.store import cancellations, records
from lading.store.background_work import WorkLoop
from lading.store.cancellations import Cancellation
from lading.store.database import Transaction, TransactionInterrupted

SIZES: Final = (100, 1000)
"""The fewest and the most requests of a transaction."""
# Records whose log rows are made without a pause.
_LOGGED_AT_ONCE: Final = 100
# Requests of a transaction that are cancelled one by one.
_SINGLY: Final = 8
# Steps at a time: one begins while the commit of the other is on its way to the disk.
_AT_A_TIME: Final = 2
# Seconds for which a server holds a cancellation; each step renews that.
_HELD: Final = 10.0
# Seconds after which a server looks for cancellations that another server has stored or left.
_LONGEST: Final = 10.0
# Containers that were taken, whose requests are looked for by one query.
_TAKEN_AT_ONCE: Final = 200
_NO_CONTAINER: Final[tuple[Record, bool]] = ({}, False)
_STATE: Final = Compare(Column("state", Type.STRING), "=", RequestState.COMMITTED)
_logger = logging.getLogger("lading.api.background.request_cancellation")


@dataclass(frozen=True, slots=True)
class _Change:
    """The same change of some records; `rows` are the records before it."""

    kind: RecordType
    rows: Sequence[Record]
    values: Record


class CancellationWorker:
    """Works off the cancellations of a database. `holder` names this server among those that share
    it; without one it gets a random name. `sizes`: the fewest and the most requests of a
    transaction.
    """

    def __init__(
        self, services: ApiServices, *, holder: str = "", sizes: tuple[int, int] = SIZES
    ) -> None:
        self._services = services
        self._holder = holder or services.ids.entropy(16).hex()
        self._size = PageSize(*sizes)
        # The page that is read while the last one is worked off.
        self._ahead: asyncio.Task[Page] | None = None
        # Numbers of the last log rows before and after the latest steps, between which no other
        # rows are.
        self._own = (0, 0)

    async def run(self) -> None:
        """Work until cancelled."""
        wakeups = self._services.events.wakeups
        loop = WorkLoop(_logger, "cancellation is late")
        await loop.run(self.work, lambda _: wakeups.until_cancelled(_LONGEST))

    async def work(self) -> None:
        """Work off all cancellations that no other server holds."""
        while True:
            now = self._services.clock.now()
            async with self._services.database.reading() as tx:
                unfinished = await cancellations.unfinished(tx)
            free = [
                cancellation
                for cancellation in unfinished
                if not cancellation.is_held(self._holder, now)
            ]
            if not free:
                return
            await self._finish(free[0])

    async def _finish(self, cancellation: Cancellation) -> None:
        try:
            await self._stop_taken(cancellation)
            if cancellation.total is None:
                await self._count(cancellation)
            await together(*(self._steps(cancellation.id) for _ in range(_AT_A_TIME)))
        except (Unavailable, Conflict):
            raise
        except LadingError as error:
            # A fault of what is asked for: it would not go away by itself.
            await self._end(cancellation.id, error.message)
        finally:
            await self._drop()

    async def _drop(self) -> None:
        """Give up the page that was read for the next step."""
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            await cancel_all(ahead)

    async def _stop_taken(self, cancellation: Cancellation) -> None:
        """Cancel the requests whose containers a dispatcher has taken, or run: they are few, and
        each moment may start one of them.
        """
        services, after = self._services, ""
        while True:
            async with services.database.reading() as tx:
                uuids = await cancellations.taken(tx, after=after, most=_TAKEN_AT_ONCE)
                if not uuids:
                    return
                meant = cancellation_scope.of_containers(uuids)
                rows = await cancellation_scope.left_of(tx, services, cancellation, meant)
            after = uuids[-1]
            going = [str(row["uuid"]) for row in rows if row["priority"]]
            for start in range(0, len(going), _SINGLY):
                await self._stop(cancellation.id, going[start : start + _SINGLY])

    async def _stop(self, id: str, uuids: Sequence[str]) -> None:
        services = self._services
        async with services.database.writing() as tx:
            one = await cancellations.get(tx, id)
            # Another server may have finished it since.
            if one is not None and one.finished_at is None:
                done = await cancellation_scope.cancel_each(tx, services, one, uuids)
                await cancellations.put(tx, replace(one, cancelled=one.cancelled + done))

    async def _count(self, cancellation: Cancellation) -> None:
        """Store the number of the requests, before the first of them is cancelled."""
        database = self._services.database
        async with database.reading() as tx:
            principal = await principal_of(tx, self._services.ids, cancellation)
            query = await query_of(tx, self._services.clock, principal, cancellation)
            query = replace(query, where=(*query.where, *before(cancellation.position)))
            # Before the count: what is cancelled meanwhile, before its turn, is in neither number
            # until the end (`advance`), and not in both.
            fresh = await cancellations.get(tx, cancellation.id)
            total = fresh.cancelled if fresh is not None else 0
            total += await records.count(tx, tx.dialect, REQUESTS, query)
        async with database.writing() as tx:
            fresh = await cancellations.get(tx, cancellation.id)
            if fresh is not None and fresh.total is None:
                await cancellations.put(tx, replace(fresh, total=total))

    async def _steps(self, id: str) -> None:
        goes_on = True
        while goes_on:
            # Rolled back with the block of another writer: the step is done again.
            with suppress(TransactionInterrupted):
                goes_on = await self._step(id)

    async def _step(self, id: str) -> bool:
        """Cancel a page; False when there is no further one for this server."""
        loop, services = asyncio.get_running_loop(), self._services
        async with services.database.writing(aside=True) as tx:
            began = loop.time()
            now = services.clock.now()
            found = await cancellations.get_now(tx, id)
            if found is None:
                return False
            cancellation, last = found
            if cancellation.finished_at is not None or cancellation.is_held(self._holder, now):
                return False
            page = await self._next(tx, cancellation, last)
            if page.step is not None and not page.step.singly:
                following = replace(cancellation, position=page.after)
                self._ahead = loop.create_task(self._look(following), name="look at the next page")
            done = await advance(tx, services, cancellation, page)
            await cancellations.put(
                tx, replace(done, holder=self._holder, held_until=later(now, _HELD))
            )
            # Steps that follow one another are one stretch.
            before = self._own[0] if self._own[1] == last else last
            after = await audit.latest_in(tx)
            # One that is cancelled alone may change those of the next page.
            alone = page.step is not None and page.step.singly
            self._own = (after if alone else before, after)
            taken = loop.time() - began
        self._size.fit(taken)
        return done.finished_at is None

    async def _next(self, tx: Transaction, cancellation: Cancellation, last: int) -> Page:
        """The next page of a cancellation: the one that was read before, if it still holds.
        `last` is the number of the last log row.
        """
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            page = await ahead
            before, after = self._own
            if page.position == cancellation.position and (
                page.number == last or (before <= page.number and after == last)
            ):
                return page
        return await look(tx, self._services, cancellation, size=self._size.records)

    async def _look(self, cancellation: Cancellation) -> Page:
        async with self._services.database.reading() as tx:
            return await look(tx, self._services, cancellation, size=self._size.records)

    async def _end(self, id: str, error: str) -> None:
        async with self._services.database.writing() as tx:
            one = await cancellations.get(tx, id)
            if one is not None:
                ended = replace(one, finished_at=self._services.clock.now(), error=error)
                await cancellations.put(tx, ended)


@dataclass(frozen=True, slots=True)
class Page:
    """The next requests of a cancellation, by uuid, with their containers, and how they are
    cancelled; without requests there is no `step`.

    `position` is that of the cancellation before them, and `number` that of the last log row before
    they were read.
    """

    position: tuple[str, str]
    number: int
    requests: Mapping[str, Record]
    containers: Mapping[str, tuple[Record, bool]]
    step: CancellationStep | None

    @property
    def after(self) -> tuple[str, str]:
        """Position of the cancellation after the step."""
        if self.step is None:
            return self.position
        return self.requests[self.step.last]["created_at"], self.step.last


async def look(
    tx: Transaction, services: ApiServices, cancellation: Cancellation, *, size: int
) -> Page:
    """The next page of a cancellation, of at most `size` requests."""
    # First: a change that the further queries do not see has a later row.
    number = await audit.latest_in(tx)
    principal = await principal_of(tx, services.ids, cancellation)
    if not principal.is_active:
        raise LadingError(f"{cancellation.user_uuid}: the user is not active any more")
    dialect = services.database.dialect
    query = await query_of(tx, services.clock, principal, cancellation)
    rows = await cancellations.page(tx, dialect, query.where, cancellation.position, size=size)
    if not rows:
        return Page(cancellation.position, number, {}, {}, None)
    await _give_way()
    container_uuids = [row["container_uuid"] for row in rows if row["container_uuid"]]
    containers = await cancellations.containers_of(tx, dialect, container_uuids)
    await _give_way()
    unit = UnitOfWork(tx, services, user_uuid=cancellation.user_uuid)
    step = plan_step(await _facts(unit, principal, rows, containers), most_singly=_SINGLY)
    return Page(
        cancellation.position, number, {str(row["uuid"]): row for row in rows}, containers, step
    )


async def advance(
    tx: Transaction, services: ApiServices, cancellation: Cancellation, page: Page
) -> Cancellation:
    """Cancel the requests of a page; the cancellation afterwards."""
    if page.step is None:
        # Some may have ended by themselves since they were counted.
        total = cancellation.cancelled + cancellation.refused
        return replace(cancellation, total=total, finished_at=services.clock.now())
    unit = UnitOfWork(tx, services, user_uuid=cancellation.user_uuid)
    if page.step.together:
        some = [page.requests[uuid] for uuid in page.step.together]
        await cancel_in_set(unit, some, [page.containers[row["container_uuid"]][0] for row in some])
    await cancellation_scope.cancel_each(tx, services, cancellation, page.step.singly)
    done = len(page.step.together) + len(page.step.singly)
    return replace(
        cancellation,
        position=page.after,
        cancelled=cancellation.cancelled + done,
        refused=cancellation.refused + page.step.refused,
    )


async def cancel_in_set(
    unit: UnitOfWork, requests: Sequence[Record], containers: Sequence[Record]
) -> None:
    """Cancel requests and their containers, one container for each request, in a few statements.
    Their cancellation must change no other record. The rows must have at least the fields that
    are logged or changed.
    """
    stamp: Record = {"modified_at": unit.now, "modified_by_user_uuid": unit.user_uuid}
    changes = [_Change(REQUESTS, requests, {**request.CANCELLED, **stamp})]
    # A container that the server has warned about keeps the warning in its status.
    by_status: dict[bytes, list[Record]] = {}
    for row in containers:
        by_status.setdefault(msgspec.json.encode(row["runtime_status"]), []).append(row)
    for some in by_status.values():
        status = some[0]["runtime_status"] or {}
        values = lifecycle.cancelled_waiting(status, now=unit.now, reason=ABANDONED)
        changes.append(_Change(CONTAINERS, some, {**values, **stamp}))
        unit.tx.after_commit(
            partial(unit.services.features[METRICS].note_unused, status, len(some))
        )
    logged: list[audit.LogRow] = []
    # The log rows are made while the database works.
    await together(_change_all(unit, changes), _log_all(unit, changes, logged))
    await audit.write_all(unit.tx, unit.services.database, unit.services.events, logged)
    depending = [str(row["uuid"]) for row in requests if row["depends_on"]]
    if depending:
        await cancellations.unwatch_all(unit.tx, unit.tx.dialect, depending)
    await unit.services.features[STATUSES].forget(unit.tx, [str(row["uuid"]) for row in containers])


async def _change_all(unit: UnitOfWork, changes: Sequence[_Change]) -> None:
    for change in changes:
        uuids = [str(row["uuid"]) for row in change.rows]
        await records.change_all(unit.tx, unit.tx.dialect, change.kind, uuids, change.values)


async def _log_all(
    unit: UnitOfWork, changes: Sequence[_Change], log_rows: list[audit.LogRow]
) -> None:
    """Make the log rows of these changes, and append them to `log_rows`."""
    for change in changes:
        for start in range(0, len(change.rows), _LOGGED_AT_ONCE):
            some = change.rows[start : start + _LOGGED_AT_ONCE]
            log_rows += audit.rows_of_change(
                unit.services.ids,
                unit.services.config,
                change.kind,
                some,
                change.values,
                user_uuid=unit.user_uuid,
            )
            await _give_way()


async def _give_way() -> None:
    """Let the calls go on that only read: with SQLite a statement does not."""
    await asyncio.sleep(0)


async def _facts(
    unit: UnitOfWork,
    principal: Principal,
    rows: Sequence[Record],
    containers: Mapping[str, tuple[Record, bool]],
) -> list[WaitingRequest]:
    """The facts that decide how each request is cancelled, in the order of the rows."""
    dialect = unit.services.database.dialect
    needed = await cancellations.with_dependents(unit.tx, dialect, [row["uuid"] for row in rows])
    charged = set(containers) if await unit.uses(Feature.SHARES) else set[str]()
    if await unit.uses(Feature.QUOTAS):
        charged |= await cancellations.with_charges(unit.tx, dialect, list(containers))
    refused = await cancellation_scope.refused(unit.tx, principal, rows)
    facts = []
    for row in rows:
        container, is_shared = containers.get(row["container_uuid"] or "", _NO_CONTAINER)
        facts.append(
            WaitingRequest(
                uuid=row["uuid"],
                state=RequestState(row["state"]),
                container_state=ContainerState(container["state"]) if container else None,
                container_priority=container["priority"] or 0 if container else 0,
                lock_count=container["lock_count"] or 0 if container else 0,
                max_parallel=row["max_parallel"] or 0,
                is_shared=is_shared,
                has_dependents=row["uuid"] in needed,
                has_costs=bool(row["cumulative_cost"]),
                has_times=bool(row["expires_at"] or row["start_after"] or row["retry_after"]),
                has_charges=row["container_uuid"] in charged,
                is_refused=row["uuid"] in refused,
                has_priority=bool(row["priority"]),
            )
        )
    return facts
