"""Ends of containers that their dispatcher does not report.

- Containers whose dispatcher's token has ended are given back or ended
  (`core.policy.orphans`); each server looks for them with its timers.
- An admin ends a container, whoever holds it: `POST containers/{uuid}/cancel`.

The live log is saved as the log of a container that ends so; the trail and `runtime_status` tell
why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from lading.api.events import audit
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.api.resources.container_changes import find_container, store_change, username
from lading.api.resources.container_results import save_spooled
from lading.api.serializer import check_match, show
from lading.api.server.upkeep import UPKEEP
from lading.api.services import ApiServices
from lading.core import ids
from lading.core.containers import lifecycle
from lading.core.containers.container import HELD, Container, ContainerState, DecisionKind
from lading.core.policy import orphans
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.container_types import CONTAINERS
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import Record
from lading.store import records, upkeep
from lading.store.containers import live
from lading.store.containers.live import OrphanedContainer
from lading.store.database import Transaction

Decision: TypeAlias = tuple[lifecycle.ContainerChange, str] | None
"""A change and its reason; None for none."""


async def cancel_container(call: ApiCall) -> ApiResponse:
    """End a container, whoever holds it (admins). Raises Forbidden, IllegalTransition."""
    access.check_admin(call.caller, "end containers")
    services, reason = call.services, call.params.get("reason")
    async with services.database.reading() as tx:
        row, user = await find_container(tx, call), await username(tx, call)

    def decide(container: Container) -> Decision:
        return orphans.end_by_admin(
            container, now=services.clock.now(), username=user, reason=reason
        )

    # Refused before its log is saved.
    decide(Container.from_record(row))
    log = await _saved_log(call, row)
    async with services.database.writing() as tx:
        row = await find_container(tx, call)
        check_match(call, row)
        row = await _store(tx, call, row, decide(Container.from_record(row)), log)
    return ApiResponse(body=show(CONTAINERS, row))


async def end_orphans(services: ApiServices) -> None:
    """Give back or end the containers whose dispatcher's token has ended."""
    root_token = ids.root_token(services.config.ClusterID)
    async with services.database.reading() as tx:
        orphans = await live.orphaned(tx, services.clock.now(), root_token=root_token)
    first_seen = services.features[UPKEEP].orphans
    for uuid in first_seen.keys() - {orphan.uuid for orphan in orphans}:
        del first_seen[uuid]
    if not orphans:
        return
    uses = services.features[UPKEEP].uses(
        orphan.supervisor_auth_uuid for orphan in orphans if orphan.supervisor_auth_uuid
    )
    if uses:
        # Stored for the other servers of this database: a supervisor calls one of them.
        async with services.database.writing() as tx:
            await upkeep.mark_used(tx, uses)
    for orphan in orphans:
        since = first_seen.setdefault(orphan.uuid, services.clock.now())
        await _settle(services, orphan, max(since, orphan.heard or "", _use(uses, orphan)))


def _use(uses: Mapping[str, tuple[str, str]], orphan: OrphanedContainer) -> str:
    return uses.get(orphan.supervisor_auth_uuid or "", ("", ""))[0]


async def _settle(services: ApiServices, orphan: OrphanedContainer, heard: str) -> None:
    call = _own_call(services, orphan.uuid)

    def decide(container: Container) -> Decision:
        is_same = container.supervisor_auth_uuid == orphan.supervisor_auth_uuid
        # Another server may have given it back meanwhile, and a dispatcher have locked it.
        if container.state not in HELD or not is_same:
            return None
        return orphans.take_back(
            container,
            now=services.clock.now(),
            heard=heard,
            max_attempts=services.policy.max_dispatch_attempts,
        )

    async with services.database.reading() as tx:
        row = await records.get(tx, CONTAINERS, orphan.uuid)
    decision = decide(Container.from_record(row)) if row is not None else None
    if row is None or decision is None:
        return
    ends = decision[0].container.state is ContainerState.CANCELLED
    log = await _saved_log(call, row) if ends else None
    async with services.database.writing() as tx:
        row = await records.get(tx, CONTAINERS, orphan.uuid)
        if row is not None:
            await _store(tx, call, row, decide(Container.from_record(row)), log)


def _own_call(services: ApiServices, container_uuid: str) -> ApiCall:
    """A call of the system user about a container."""
    principal = Principal(
        user_uuid=services.ids.system_user,
        token_uuid=ids.root_token(services.config.ClusterID),
        token="",
        is_admin=True,
    )
    return ApiCall(
        services=services,
        method="POST",
        path=f"/arvados/v1/containers/{container_uuid}/cancel",
        headers={},
        principal=principal,
        uuid=container_uuid,
    )


async def _saved_log(call: ApiCall, row: Record) -> tuple[ApiCall, Record] | None:
    # Before the transaction: storing blocks takes long, and no other call may wait for it.
    given: Record = {"state": ContainerState.CANCELLED}
    return await save_spooled(call, Container.from_record(row), given, is_lost=True)


async def _store(
    tx: Transaction,
    call: ApiCall,
    row: Record,
    decision: Decision,
    log: tuple[ApiCall, Record] | None,
) -> Record:
    if decision is None:
        return row
    change, reason = decision
    if log is not None and change.changed.get("state") == ContainerState.CANCELLED:
        await generic.insert(tx, log[0], COLLECTIONS, log[1])
        change = lifecycle.with_log(change, log[1]["portable_data_hash"])
    row = await store_change(tx, call, row, change)
    said: Record = {"text": reason, "user_uuid": call.caller.user_uuid}
    await audit.note(tx, call.services, row, DecisionKind.ABANDONED, reason, said)
    return row


HANDLERS: Final = {"containers.cancel": cancel_container}
