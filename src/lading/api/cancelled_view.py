"""The view of readers while cancellations of many requests are under way.

A cancellation is one stored record until its rows are written
(`api.background.request_cancellation`). Reads of requests and containers ask `find_view`, one short
query where there is none; it rewrites their conditions (`core.records.pending_cancellations`), and
`show_covered` changes the rows that they found.

Source: docs/spec/api, section Cancelling many requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from lading.api.logins import authentication
from lading.api.server.features import FeatureKey
from lading.api.services import ApiServices
from lading.core.records import access, pending_cancellations
from lading.core.records.access import Principal
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import Among, Column, Compare, Either, Expression, Query
from lading.core.records.filters import check_filters
from lading.core.records.pending_cancellations import COMMITTED, QUEUED, PendingCancellation, View
from lading.core.records.permissions import Accessible, Level, Reachable, Unfrozen
from lading.core.records.schema import Record, RecordType, Type
from lading.store import cancellations, permission_queries, permissions, records
from lading.store.cancellations import Cancellation
from lading.store.database import Transaction

MOST_EXCEPTIONS: Final = 5000
"""Requests that a cancellation does not mean which a server keeps in memory."""
_UUID: Final = Column("uuid", Type.STRING)
_OWNER: Final = Column("owner_uuid", Type.STRING)


class KnownExceptions:
    """The requests that cancellations do not mean, by the id of each cancellation.

    They are sought once, since that reads all requests that wait. No more of them come: a request
    that is committed later is newer than the position, and one that is meant is cancelled before a
    call changes it.
    """

    def __init__(self) -> None:
        self._exceptions: dict[str, tuple[str, ...] | None] = {}
        self._lock = asyncio.Lock()

    async def of(
        self, tx: Transaction, id: str, pending: PendingCancellation
    ) -> tuple[str, ...] | None:
        """The uuids of the exceptions to a cancellation; None if they are many."""
        if not pending.conditions:
            return ()
        if id in self._exceptions:
            return self._exceptions[id]
        # Readers that come meanwhile wait for the one answer.
        async with self._lock:
            if id in self._exceptions:
                return self._exceptions[id]
            found = await _exceptions(tx, pending)
            self._exceptions[id] = found
        return found

    def keep_only(self, ids: Collection[str]) -> None:
        """Forget all other cancellations."""
        for id in self._exceptions.keys() - set(ids):
            del self._exceptions[id]


EXCEPTIONS: Final = FeatureKey("exceptions to cancellations", KnownExceptions)


async def _exceptions(tx: Transaction, pending: PendingCancellation) -> tuple[str, ...] | None:
    query = Query(where=pending.excepted, select=("uuid",), limit=MOST_EXCEPTIONS + 1)
    rows = await records.search(tx, tx.dialect, REQUESTS, query)
    return None if len(rows) > MOST_EXCEPTIONS else tuple(str(row["uuid"]) for row in rows)


async def find_view(tx: Transaction, services: ApiServices, kind: RecordType) -> View | None:
    """The view of readers on records of a type; None where they see the stored records."""
    if kind is not REQUESTS and kind is not CONTAINERS:
        return None
    unfinished = await cancellations.unfinished(tx)
    services.features[EXCEPTIONS].keep_only([cancellation.id for cancellation in unfinished])
    pending = []
    for cancellation in unfinished:
        condition = await _pending(tx, services, cancellation)
        if condition is not None:
            pending.append(condition)
    return View(tuple(pending)) if pending else None


async def show_covered(
    tx: Transaction, view: View, kind: RecordType, rows: Sequence[Record]
) -> None:
    """Change the rows of a page, which have their uuids, to what readers are shown."""
    covered = view.covered(kind)
    # Others are not covered.
    waiting = (COMMITTED.value, QUEUED.value)
    uuids = tuple(
        row["uuid"] for row in rows if "uuid" in row and row.get("state", waiting[0]) in waiting
    )
    if covered is None or not uuids:
        return
    where = (Among(_UUID, uuids), pending_cancellations.unindexed(covered))
    query = Query(where=where, select=("uuid",), limit=len(uuids))
    found = {row["uuid"] for row in await records.search(tx, tx.dialect, kind, query)}
    for row in rows:
        if row.get("uuid") in found:
            pending_cancellations.show(kind, row)


async def _pending(
    tx: Transaction, services: ApiServices, cancellation: Cancellation
) -> PendingCancellation | None:
    """The requests that a cancellation has yet to reach, with the present rights of its user; None
    for a user who is not active.
    """
    owner = {"committed_by_uuid": cancellation.user_uuid, "owner_uuid": cancellation.user_uuid}
    principal = await authentication.committer(tx, services.ids, owner)
    if not principal.is_active:
        return None
    where: list[Expression] = [
        condition
        for condition in access.readable(
            REQUESTS, principal, now=services.clock.now(), include_trash=True
        )
        if not isinstance(condition, Accessible)
    ]
    if not principal.is_admin:
        where += await _writable(tx, principal)
    if await permissions.any_frozen(tx):
        where.append(Unfrozen("owner_uuid"))
    where += [
        condition
        for condition in check_filters(cancellation.filters, REQUESTS)
        if condition != COMMITTED
    ]
    pending = PendingCancellation(tuple(where), cancellation.position, cancellation.start)
    exceptions = await services.features[EXCEPTIONS].of(tx, cancellation.id, pending)
    return replace(pending, exceptions=exceptions)


async def _writable(tx: Transaction, principal: Principal) -> Sequence[Expression]:
    """The conditions for requests that a user who is no admin can read and write."""
    user = principal.user_uuid
    accessible = await permission_queries.accessible(tx, REQUESTS, user)
    if (accessible.owners, accessible.shared) == ((user,), ()):
        return (accessible,)
    may_write = Either(
        (
            Compare(_OWNER, "=", user),
            Reachable(user, "owner_uuid", level=Level.WRITE, owning=True),
            Reachable(user, "uuid", level=Level.WRITE),
        )
    )
    return (accessible, may_write)
