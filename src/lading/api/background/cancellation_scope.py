"""The requests that stored cancellations have yet to cancel.

A cancellation of many requests (`api.background.request_cancellation`) takes a while to reach all
of them. It holds from the call on: no container is locked any more that only such requests want
(`check_lock`), and those requests are cancelled at once instead (`cancel_container`).

Source: docs/spec/api, section Cancelling many requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lading.api import authorization
from lading.api.logins import authentication
from lading.api.resources import generic
from lading.api.server.identifiers import ApiClock, Identifiers
from lading.api.services import ApiServices
from lading.api.transaction import UnitOfWork
from lading.core.containers.request_phases import RequestState
from lading.core.errors import Conflict
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.container_types import REQUESTS
from lading.core.records.expressions import Among, Column, Compare, Expression, Query
from lading.core.records.filters import check_filters
from lading.core.records.pending_cancellations import before
from lading.core.records.permissions import Level
from lading.core.records.schema import Record, Type
from lading.store import cancellations, permissions, records
from lading.store.cancellations import Cancellation
from lading.store.database import Transaction

_COMMITTED: Final = Compare(Column("state", Type.STRING), "=", RequestState.COMMITTED)


class BeingCancelled(Conflict):
    """A container cannot be locked: all requests that want it are being cancelled."""


async def principal_of(
    tx: Transaction, identifiers: Identifiers, cancellation: Cancellation
) -> Principal:
    """The user who asked for the cancellation, with the rights that the user has now."""
    owner = {"committed_by_uuid": cancellation.user_uuid, "owner_uuid": cancellation.user_uuid}
    return await authentication.committer(tx, identifiers, owner)


async def query_of(
    tx: Transaction, clock: ApiClock, principal: Principal, cancellation: Cancellation
) -> Query:
    """The Committed requests that are meant, wherever the cancellation has come to."""
    where: list[Expression] = [
        # Trashed requests may be stopped too.
        *access.readable(REQUESTS, principal, now=clock.now(), include_trash=True),
        _COMMITTED,
        *check_filters(cancellation.filters, REQUESTS),
    ]
    return await generic.narrowed(tx, REQUESTS, Query(where=tuple(where)), principal)


async def refused(tx: Transaction, principal: Principal, rows: Sequence[Record]) -> set[str]:
    """The requests that the user may read but not change."""
    owners = {str(row["owner_uuid"]) for row in rows} - {principal.user_uuid}
    flags = await permissions.flags_by_group(tx, owners)
    refused_uuids = {
        row["uuid"] for row in rows if (f := flags.get(row["owner_uuid"])) and f.frozen
    }
    if principal.is_admin:
        return refused_uuids
    for row in rows:
        if row["owner_uuid"] != principal.user_uuid and row["uuid"] not in refused_uuids:
            level = await authorization.level_of(tx, REQUESTS, row, principal)
            if level < Level.WRITE:
                refused_uuids.add(row["uuid"])
    return refused_uuids


async def left_of(
    tx: Transaction, services: ApiServices, cancellation: Cancellation, condition: Expression
) -> list[Record]:
    """The requests that meet a condition and that the cancellation has yet to cancel."""
    principal = await principal_of(tx, services.ids, cancellation)
    # The next step ends the cancellation of a user who is not active.
    if not principal.is_active:
        return []
    query = await query_of(tx, services.clock, principal, cancellation)
    where = (*query.where, condition, *before(cancellation.position))
    rows = await records.find(tx, tx.dialect, REQUESTS, where)
    kept_back = await refused(tx, principal, rows) if rows else set[str]()
    return [row for row in rows if row["uuid"] not in kept_back]


async def left(
    tx: Transaction, services: ApiServices, condition: Expression
) -> list[tuple[Cancellation, list[Record]]]:
    """Like `left_of`, for each cancellation with such requests, the oldest first."""
    pending = []
    for cancellation in await cancellations.unfinished(tx):
        rows = await left_of(tx, services, cancellation, condition)
        if rows:
            pending.append((cancellation, rows))
    return pending


def of_containers(uuids: Sequence[str]) -> Expression:
    """The condition that a request has one of these containers."""
    return Among(Column("container_uuid", Type.STRING), tuple(uuids))


async def check_lock(unit: UnitOfWork, container_uuid: str) -> None:
    """Raise BeingCancelled if a container is wanted by requests alone that are being cancelled.
    Only a site with such requests needs to ask (`Feature.CANCELLATIONS`).
    """
    wanting = await unit.committed(container_uuid)
    pending = await left(unit.tx, unit.services, of_containers([container_uuid]))
    ending = {row["uuid"] for _, rows in pending for row in rows}
    if ending and all(not subject.priority or subject.uuid in ending for _, subject in wanting):
        raise BeingCancelled(f"{container_uuid}: cannot lock: its requests are being cancelled")


async def cancel_container(services: ApiServices, container_uuid: str) -> None:
    """Cancel the requests of a container that are being cancelled, before their turn."""
    async with services.database.writing() as tx:
        for cancellation, rows in await left(tx, services, of_containers([container_uuid])):
            done = await cancel_each(tx, services, cancellation, [row["uuid"] for row in rows])
            await cancellations.put(
                tx, replace(cancellation, cancelled=cancellation.cancelled + done)
            )


async def reach(services: ApiServices, request_uuid: str) -> None:
    """Cancel a request that is being cancelled, before its turn: a call is about to change it, and
    must meet what readers are shown.
    """
    async with services.database.reading() as tx:
        if not await cancellations.unfinished(tx):
            return
    itself = Compare(Column("uuid", Type.STRING), "=", request_uuid)
    async with services.database.writing() as tx:
        for cancellation, rows in await left(tx, services, itself):
            done = await cancel_each(tx, services, cancellation, [row["uuid"] for row in rows])
            await cancellations.put(
                tx, replace(cancellation, cancelled=cancellation.cancelled + done)
            )


async def find_ending(services: ApiServices, container_uuids: Sequence[str]) -> set[str]:
    """The containers whose requests are being cancelled."""
    if not container_uuids:
        return set()
    async with services.database.reading() as tx:
        pending = await left(tx, services, of_containers(container_uuids))
    return {row["container_uuid"] for _, rows in pending for row in rows}


async def cancel_each(
    tx: Transaction, services: ApiServices, cancellation: Cancellation, uuids: Sequence[str]
) -> int:
    """Cancel requests as the call `cancel` does, each with its consequences; how many it were."""
    unit = UnitOfWork(tx, services, user_uuid=cancellation.user_uuid)
    done = 0
    for uuid in uuids:
        # Read now: an earlier one may have ended it.
        row = await records.get(tx, REQUESTS, uuid)
        if row is not None and row["state"] == RequestState.COMMITTED:
            await unit.cancel(row)
            await unit.settle()
            done += 1
    return done
