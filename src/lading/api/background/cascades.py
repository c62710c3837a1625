"""Cascades: consequences for very many records, worked off in the background in short transactions.

A change of one record may have consequences for a hundred thousand others: a project with a long
queue goes into the trash, the runner of a large workflow ends, a quota is lowered. Up to `AT_ONCE`
of them are part of the transaction of the change. For more it stores a cascade (`store.cascades`),
and a task of the server works that off, a page in each transaction: other calls are answered
between two pages, and a server that starts goes on at the last position.

Pages have a `PageSize`. A page is read before the
transaction: its containers are computed anew from what is stored then, so that one that changed
meanwhile gets no stale value.

Permissions, names and the trash itself change at once, with the change. The containers keep their
former priority until their page comes, the oldest first.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import Final

from lading.api.background.page_size import PageSize
from lading.api.services import ApiServices
from lading.api.transaction import UnitOfWork
from lading.core.containers.container import ContainerState
from lading.core.containers.request_phases import RequestState
from lading.core.errors import Conflict, LadingError, Unavailable
from lading.core.quantities import later
from lading.core.records.container_types import REQUESTS
from lading.process.telemetry import event
from lading.store import cascades, permissions, quota_waits, records
from lading.store import quotas as quota_rows
from lading.store.background_work import WorkLoop
from lading.store.cascades import AT_ONCE, Cascade, CascadeKind, CascadePage
from lading.store.database import Transaction, TransactionInterrupted

SIZES: Final = (20, 1000)
"""The fewest and the most records of a transaction."""
# Pages that a call works off itself.
_PAGES_NOW: Final = 6
# Cascades that are worked off in turns.
_IN_TURNS: Final = 20
# Seconds for which a server holds a cascade; each page renews that.
_HELD: Final = 10.0
# Seconds after which a server looks for cascades that another server has stored or left.
_LONGEST: Final = 10.0
# Phases of the cascade of a quota.
_TAKE_BACK: Final = "take back"
_QUEUED: Final = "queued"
_WAITING: Final = "waiting"
_logger = logging.getLogger("lading.api.background.cascades")


class CascadeWorker:
    """Works off the cascades of a database. `holder` names this server among those that share it;
    without one it gets a random name. `sizes`: the fewest and the most records of a transaction;
    `hold`: seconds for which it keeps a cascade after a page. `aside`: calls that write go before
    its next page.
    """

    def __init__(
        self,
        services: ApiServices,
        *,
        holder: str = "",
        sizes: tuple[int, int] = SIZES,
        hold: float = _HELD,
        aside: bool = True,
    ) -> None:
        self._services = services
        self._hold = hold
        self._aside = aside
        self._holder = holder or services.ids.entropy(16).hex()
        self._size = PageSize(*sizes)
        # The projects of the cascade of a project, read once: others that come in later have a
        # cascade of their own.
        self._projects: tuple[tuple[str, str], list[str]] = (("", ""), [])

    async def run(self) -> None:
        """Work until cancelled."""
        wakeups = self._services.events.wakeups
        loop = WorkLoop(_logger, "cascade is late")
        await loop.run(self.work, lambda _: wakeups.until_cascade(_LONGEST))

    async def work(self) -> None:
        """Work off all cascades that no other server holds, a page of each in turn."""
        while True:
            now = self._services.clock.now()
            async with self._services.database.reading() as tx:
                unfinished = await cascades.unfinished(tx, most=_IN_TURNS)
            free = [cascade for cascade in unfinished if not cascade.is_held(self._holder, now)]
            if not free:
                return
            for cascade in free:
                # Rolled back with the block of another writer: the page is done again.
                with suppress(TransactionInterrupted):
                    await self.step(cascade)

    async def step(self, cascade: Cascade) -> None:
        """Work off a page of a cascade, if no other server has begun to."""
        loop, services = asyncio.get_running_loop(), self._services
        try:
            async with services.database.reading() as tx:
                page = await self._page(tx, cascade)
            async with services.database.writing(aside=self._aside) as tx:
                began, now = loop.time(), services.clock.now()
                stored = await cascades.get(tx, cascade.kind, cascade.subject_uuid)
                if (
                    stored is None
                    or stored.is_held(self._holder, now)
                    or (stored.begun_at, stored.position) != (cascade.begun_at, cascade.position)
                ):
                    return
                unit = UnitOfWork(tx, services, user_uuid=services.ids.system_user)
                done, position = await self._carry_out(unit, cascade, page)
                if position is None:
                    await cascades.finish(tx, cascade)
                else:
                    following = replace(
                        cascade,
                        position=position,
                        done=cascade.done + done,
                        holder=self._holder,
                        held_until=later(now, self._hold),
                    )
                    await cascades.put(tx, following)
                taken = loop.time() - began
        except (Unavailable, Conflict, TransactionInterrupted):
            raise
        except LadingError as error:
            # A fault of what is stored: it would not go away by itself.
            await self._give_up(cascade, error)
            return
        self._size.fit(taken)
        if position is None:
            event(
                _logger,
                "cascade finished",
                kind=cascade.kind,
                subject=cascade.subject_uuid,
                records=cascade.done + done,
            )

    async def _give_up(self, cascade: Cascade, error: LadingError) -> None:
        event(
            _logger,
            "cascade given up",
            kind=cascade.kind,
            subject=cascade.subject_uuid,
            why=error,
        )
        async with self._services.database.writing() as tx:
            await cascades.finish(tx, cascade)

    async def _page(self, tx: Transaction, cascade: Cascade) -> CascadePage:
        """The containers of the next page, of a cascade that pages by containers."""
        uuid, position = cascade.subject_uuid, cascade.position
        match cascade.kind:
            case CascadeKind.PROJECT:
                key = (uuid, cascade.begun_at)
                if self._projects[0] != key:
                    below = await permissions.below(tx, uuid)
                    self._projects = (key, sorted(group_uuid for group_uuid, _ in below))
                return await cascades.page_of_projects(
                    tx,
                    tx.dialect,
                    self._projects[1],
                    position,
                    size=self._size.records,
                )
            case CascadeKind.BELOW:
                return await cascades.page_of_children(
                    tx, tx.dialect, uuid, position, size=self._size.records
                )
            case CascadeKind.CHILDREN | CascadeKind.QUOTA:
                return CascadePage([], None)

    async def _carry_out(
        self, unit: UnitOfWork, cascade: Cascade, page: CascadePage
    ) -> tuple[int, tuple[str, ...] | None]:
        """Work off a page: the number of records, and the position after it; None at the end."""
        match cascade.kind:
            case CascadeKind.PROJECT | CascadeKind.BELOW:
                unit.stale(page.container_uuids)
                done, position = len(page.container_uuids), page.position
            case CascadeKind.CHILDREN:
                done, position = await _cancel_children(unit, cascade, size=self._size.records)
            case CascadeKind.QUOTA:
                done, position = await _look_anew(unit, cascade, size=self._size.records)
        await unit.settle()
        return done, position


async def begin_now(services: ApiServices, kind: CascadeKind, subject_uuid: str) -> None:
    """Work off the first pages of a cascade within the call that stored it: most are short, and
    its caller sees their outcome. The background does the rest.
    """
    worker = CascadeWorker(services, sizes=(AT_ONCE, AT_ONCE), hold=0.0, aside=False)
    for _ in range(_PAGES_NOW):
        async with services.database.reading() as tx:
            cascade = await cascades.get(tx, kind, subject_uuid)
        if cascade is None:
            return
        with suppress(TransactionInterrupted, Conflict):
            await worker.step(cascade)
    services.events.wakeups.cascade()


async def _cancel_children(
    unit: UnitOfWork, cascade: Cascade, *, size: int
) -> tuple[int, tuple[str, ...] | None]:
    uuids = await cascades.children(unit.tx, cascade.subject_uuid, most=size)
    for uuid in uuids:
        # An earlier child may have ended this one meanwhile.
        row = await records.get(unit.tx, REQUESTS, uuid)
        if row is not None and row["state"] == RequestState.COMMITTED:
            await unit.cancel(row)
    # The position counts the pages: another server sees that one was done.
    page = int(cascade.position[0]) if cascade.position else 0
    # A cancellation that is refused must not be tried for ever; each page leaves fewer.
    return len(uuids), (str(page + 1),) if len(uuids) == size else None


async def _look_anew(
    unit: UnitOfWork, cascade: Cascade, *, size: int
) -> tuple[int, tuple[str, ...] | None]:
    """Look at some of what waits of a subject after a change of its quota. Until one is looked at,
    its lock is refused if there is no room.
    """
    tx, subject = unit.tx, cascade.subject_uuid
    phase, after = cascade.position or (_TAKE_BACK, "")
    if phase == _TAKE_BACK:
        # Given of a quota that may be smaller now. They are looked at in the next phase: what is
        # admitted here again would be taken back again.
        some = await quota_rows.admitted(tx, subject, most=size)
        for uuid in some:
            await quota_rows.discharge(tx, uuid, [subject])
        page = str(int(after or 0) + 1)
        return len(some), (_TAKE_BACK, page) if some else (_QUEUED, "")
    if phase == _QUEUED:
        queued = [ContainerState.QUEUED]
        some = await quota_rows.live(tx, subject, states=queued, after=after, most=size)
        unit.stale(some)
        unit.touch([subject])
        return len(some), (_QUEUED, some[-1]) if some else (_WAITING, "0")
    if await quota_rows.find(tx, [subject]):
        # The rest waits for room; `quotas.fill` goes on as it becomes free.
        return 0, None
    waiting = await quota_waits.waiting_at(tx, subject, most=size)
    unit.stale({wait.container_uuid: None for wait in waiting})
    return len(waiting), (_WAITING, str(int(after) + 1)) if waiting else None
