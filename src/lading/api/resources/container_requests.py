"""Container requests: created, one or many in a call, committed, changed, cancelled, deleted.

A handler checks the call and lets `core.containers.request` make the change; a `UnitOfWork`
(`api.transaction`) stores it and carries out its effects. The first effect finds a container for
the request (`api.container_assignment`); the dispatcher (`dispatch.loop`) has it run, and the
request becomes Final when the container ends (`api.completion`).

Many in a call: `runs.batches`.

Source: docs/spec/containers, sections Request states and Dependencies.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lading.api import authorization, completion
from lading.api.background.cancellation_scope import reach
from lading.api.container_assignment import AssignmentChoice, look_ahead
from lading.api.http import ApiCall, ApiResponse
from lading.api.mounts import mount_contents
from lading.api.resources import generic
from lading.api.resources.held_polls import wait_for_end
from lading.api.resources.repositories import look_up
from lading.api.serializer import check_match, show
from lading.api.server.identifiers import ApiClock
from lading.api.transaction import UnitOfWork, asks_for_container
from lading.config.site import Config
from lading.core.containers import request, request_phases
from lading.core.containers.constraints import Policy
from lading.core.containers.container import Container
from lading.core.containers.mounting import mounts
from lading.core.containers.mounting.git_trees import NO_TREES, GitTrees
from lading.core.containers.mounting.mounts import MountKind
from lading.core.containers.request import ContainerRequest
from lading.core.containers.request_phases import RequestState
from lading.core.containers.request_rules import Parent
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.filters import check_select
from lading.core.records.schema import JSON, Record
from lading.store import records
from lading.store.database import Transaction


async def list_requests(call: ApiCall) -> ApiResponse:
    """A page of requests; a poll of `arvados-cwl-runner` waits for an end (`held_polls`)."""
    await wait_for_end(call)
    return await generic.list_records(call, REQUESTS)


async def get_request(call: ApiCall) -> ApiResponse:
    """One request."""
    return await generic.get_record(call, REQUESTS)


async def create_request(call: ApiCall) -> ApiResponse:
    """Create a request. If it is Committed, the answer has its container, unless a git repository
    is still being fetched.

    With the parameter `satisfy` the status is then 202, and a draft gets a container too.
    """
    satisfy = bool(call.params.get("satisfy"))
    named = call.params.get("select")
    select = check_select(named, REQUESTS) if named is not None else None
    services, caller = call.services, call.caller
    attributes = call.attributes(REQUESTS)
    trees = (
        await _look_up(call, attributes)
        if satisfy or attributes.get("state") == request_phases.RequestState.COMMITTED
        else NO_TREES
    )
    change, ahead = None, None
    if not _has_parent(call, attributes):
        # Steps that need no turn come before it, so that turns are short.
        change = _satisfied(_new(call, attributes), services.policy, satisfy=satisfy)
        ahead = await look_ahead(services, change, caller, trees)
    async with services.database.writing() as tx:
        unit = UnitOfWork(tx, services, user_uuid=caller.user_uuid)
        if change is None:
            change = _new(call, attributes, parent=await find_parent(tx, call, attributes))
            change = _satisfied(change, services.policy, satisfy=satisfy)
        change = request.with_values(change, {"created_at": unit.now})
        record = await _add(unit, call, change, trees, ahead)
        await unit.settle()
    return ApiResponse(
        body=show(REQUESTS, record, select), status=_status(record) if satisfy else 200
    )


async def add_to(
    unit: UnitOfWork,
    call: ApiCall,
    attributes: Record,
    trees: GitTrees | None,
    uuid: str,
    siblings: Collection[str],
) -> Record:
    """Create one of several requests of a call, in the transaction of the unit of work; its row.

    `siblings` are those that the call has created before. Raises the errors of `create_request`.
    """
    parent = await find_parent(unit.tx, call, attributes) if _has_parent(call, attributes) else None
    change = request.with_values(
        _new(call, attributes, parent=parent, uuid=uuid), {"created_at": unit.now}
    )
    return await _add(unit, call, change, trees, None, siblings)


async def _add(
    unit: UnitOfWork,
    call: ApiCall,
    change: request.RequestChange,
    trees: GitTrees | None,
    ahead: AssignmentChoice | None,
    siblings: Collection[str] = (),
) -> Record:
    await authorization.check_owner(unit.tx, call, change.request.owner_uuid)
    await check_dependencies(
        unit.tx,
        unit.services.clock,
        unit.services.config,
        call.caller,
        change.request,
        siblings,
        is_new=True,
    )
    change = await unit.commit(change, call.caller, trees, ahead)
    return await unit.add_request(change.request.to_record())


async def _leave_former(
    unit: UnitOfWork, before: ContainerRequest, after: ContainerRequest
) -> None:
    """Settle what a changed request leaves behind: its former container, or its former owner."""
    if after.owner_uuid != before.owner_uuid and after.container_uuid is not None:
        # One of the two projects may be in the trash.
        unit.stale([after.container_uuid])
    was = before.state
    if was is RequestState.COMMITTED and after.state is RequestState.FINAL:
        await completion.charge_parent(unit, before)
        await unit.release(before)
    elif was is RequestState.UNCOMMITTED and after.container_uuid != before.container_uuid:
        await unit.release(before)


async def update_request(call: ApiCall) -> ApiResponse:
    """Change a request; a commit finds its container. `satisfy` as in `create_request`."""
    satisfy = bool(call.params.get("satisfy"))
    select = check_select(call.params.get("select"), REQUESTS)
    services, caller = call.services, call.caller
    attributes = call.attributes(REQUESTS)
    trees: GitTrees | None = NO_TREES
    if (
        satisfy
        or attributes.get("state") == request_phases.RequestState.COMMITTED
        or attributes.get("container_uuid")
    ):
        trees = await _look_up_stored(call, attributes)
    await reach(services, call.uuid)
    async with services.database.writing() as tx:
        trash = bool(call.params.get("include_trash"))
        row = await authorization.find_readable(
            tx, services.clock, services.config, REQUESTS, call.uuid, caller, include_trash=trash
        )
        await authorization.check_writable(tx, REQUESTS, row, caller)
        check_match(call, row)
        unit = UnitOfWork(tx, services, user_uuid=caller.user_uuid)
        subject = ContainerRequest.from_record(row)
        change = request.update(
            subject,
            attributes,
            now=unit.now,
            policy=services.policy,
            user_uuid=caller.user_uuid,
            admin=caller.is_admin,
            parent=await _new_parent(tx, call, attributes, subject),
        )
        await _check_results(tx, call, change)
        if change.request.owner_uuid != subject.owner_uuid:
            await authorization.check_owner(
                tx, call, change.request.owner_uuid, old=subject.owner_uuid
            )
        await check_dependencies(
            tx, services.clock, services.config, caller, change.request, subject.depends_on
        )
        change = _satisfied(change, services.policy, satisfy=satisfy)
        change = await unit.commit(change, caller, trees)
        row = await unit.change_request(row, change)
        await _leave_former(unit, subject, change.request)
        await unit.settle()
    return ApiResponse(body=show(REQUESTS, row, select), status=_status(row) if satisfy else 200)


async def satisfy_request(call: ApiCall) -> ApiResponse:
    """Find or make the container of a request: 200 with a container, 202 while a git repository is
    still being fetched.
    """
    services, caller = call.services, call.caller
    select = check_select(call.params.get("select"), REQUESTS)
    async with services.database.reading() as tx:
        row = await authorization.find_readable(
            tx, services.clock, services.config, REQUESTS, call.uuid, caller
        )
    if row["container_uuid"] is not None:
        return ApiResponse(body=show(REQUESTS, row, select))
    trees = await _look_up_stored(call, {})
    async with services.database.writing() as tx:
        row = await authorization.find_readable(
            tx, services.clock, services.config, REQUESTS, call.uuid, caller
        )
        await authorization.check_writable(tx, REQUESTS, row, caller)
        check_match(call, row)
        unit = UnitOfWork(tx, services, user_uuid=caller.user_uuid)
        change = request.satisfy(ContainerRequest.from_record(row), policy=services.policy)
        row = await unit.change_request(row, await unit.commit(change, caller, trees))
        await unit.settle()
    return ApiResponse(body=show(REQUESTS, row, select), status=_status(row))


async def cancel_request(call: ApiCall) -> ApiResponse:
    """Set the priority to 0; the request ends if its container has not started."""
    services, caller = call.services, call.caller
    await reach(services, call.uuid)
    async with services.database.writing() as tx:
        # Trashed requests may be stopped too.
        row = await authorization.find_readable(
            tx, services.clock, services.config, REQUESTS, call.uuid, caller, include_trash=True
        )
        await authorization.check_writable(tx, REQUESTS, row, caller)
        check_match(call, row)
        unit = UnitOfWork(tx, services, user_uuid=caller.user_uuid)
        row = await unit.cancel(row)
        await unit.settle()
    return ApiResponse(body=show(REQUESTS, row, check_select(call.params.get("select"), REQUESTS)))


async def delete_request(call: ApiCall) -> ApiResponse:
    """Delete a request; its container is cancelled if no other request wants it."""
    services, caller = call.services, call.caller
    await reach(services, call.uuid)
    async with services.database.writing() as tx:
        row = await authorization.find_readable(
            tx, services.clock, services.config, REQUESTS, call.uuid, caller
        )
        await authorization.check_writable(tx, REQUESTS, row, caller)
        check_match(call, row)
        unit = UnitOfWork(tx, services, user_uuid=caller.user_uuid)
        await generic.remove(tx, services, REQUESTS, row, user_uuid=caller.user_uuid)
        await unit.removed(row)
        await unit.release(ContainerRequest.from_record(row))
        await unit.settle()
    return ApiResponse(body=show(REQUESTS, row, None))


async def _check_results(tx: Transaction, call: ApiCall, change: request.RequestChange) -> None:
    """Check that the caller can read the log and the output that a change names. Raises Invalid,
    Forbidden.
    """
    for name in ("log_uuid", "output_uuid"):
        uuid = change.changed.get(name)
        if uuid is None:
            continue
        if not await authorization.can_refer(
            tx, call.services.clock, call.services.config, uuid, call.caller
        ):
            raise Invalid(f"{name}: {str(uuid)[:60]!r} not found")
        access.check_scope(call.caller, "GET", f"/arvados/v1/collections/{uuid}")


def _new(
    call: ApiCall, attributes: Record, *, parent: Parent | None = None, uuid: str = ""
) -> request.RequestChange:
    services, user = call.services, call.caller.user_uuid
    return request.create(
        attributes,
        uuid=uuid or services.ids.new_uuid(Infix.REQUEST),
        owner_uuid=user,
        user_uuid=user,
        now=services.clock.now(),
        policy=services.policy,
        parent=parent,
    )


def _has_parent(call: ApiCall, attributes: Record) -> bool:
    """Whether a container may have made the request, so that the container must be looked up."""
    return (
        call.caller.container_uuid is not None
        or attributes.get("requesting_container_uuid") is not None
    )


async def find_parent(tx: Transaction, call: ApiCall, attributes: Record) -> Parent | None:
    """The container that makes a request: the token's own, or for an admin the container that the
    request names. Raises Invalid.
    """
    uuid = call.caller.container_uuid
    named = attributes.get("requesting_container_uuid")
    if uuid is None and named is not None and call.caller.is_admin:
        uuid = named
    if not isinstance(uuid, str):
        return None
    row = await records.get(tx, CONTAINERS, uuid)
    if row is None:
        raise Invalid(f"requesting_container_uuid: '{uuid}' not found")
    wanting = await records.matching(tx, REQUESTS, container_uuid=uuid)
    highest = max((requester["priority"] or 0 for requester in wanting), default=0)
    return Parent(container_uuid=uuid, state=Container.from_record(row).state, priority=highest)


async def look_up_given(call: ApiCall, attributes: Record) -> GitTrees | None:
    """The git trees of the mounts in a body; None if they are not found within
    Containers.ResolveTimeout.
    """
    if isinstance(attributes.get("mounts"), dict) and not mounts.has_kind(
        attributes["mounts"], MountKind.GIT_TREE
    ):
        return NO_TREES
    subject = ContainerRequest.from_record(
        {"uuid": "", **{name: attributes.get(name) for name in _LOOKED_AT}}
    )
    patience = call.services.config.Containers.ResolveTimeout
    return await look_up(call.services, subject, call.caller, patience=patience)


async def look_up_trees(call: ApiCall, attributes: Record) -> GitTrees | None:
    """The git trees of a new request, as `look_up_given`; none are looked up for a draft."""
    if (
        not attributes.get("mounts")
        or attributes.get("state") != request_phases.RequestState.COMMITTED
    ):
        return NO_TREES
    return await look_up_given(call, attributes)


async def _look_up(call: ApiCall, attributes: Record) -> GitTrees | None:
    """The git trees of the mounts in a body; the contents of its other mounts are found too."""
    if not attributes.get("mounts"):
        return NO_TREES
    if _names_content(attributes["mounts"]):
        await mount_contents.look_up(call.services, call.caller, [attributes["mounts"]])
    return await look_up_given(call, attributes)


def _names_content(mounted: JSON) -> bool:
    """Whether a mount may show a part of a collection."""
    return isinstance(mounted, dict) and any(
        isinstance(spec, dict) and (spec.get("path") or spec.get("portable_data_hash"))
        for spec in mounted.values()
    )


async def _look_up_stored(call: ApiCall, attributes: Record) -> GitTrees | None:
    async with call.services.database.reading() as tx:
        row = await authorization.find_readable(
            tx, call.services.clock, call.services.config, REQUESTS, call.uuid, call.caller
        )
    if row["state"] == request_phases.RequestState.FINAL:
        return NO_TREES
    return await _look_up(call, {**{name: row[name] for name in _LOOKED_AT}, **attributes})


def _satisfied(
    change: request.RequestChange, policy: Policy, *, satisfy: bool
) -> request.RequestChange:
    """The change, extended to find a container for a draft if the call asks to `satisfy`."""
    if (
        not satisfy
        or change.request.container_uuid is not None
        or change.request.state is request_phases.RequestState.FINAL
    ):
        return change
    if asks_for_container(change):
        return change
    return request.then(change, request.satisfy(change.request, policy=policy))


def _status(record: Record) -> int:
    """202 while the request has no container."""
    return (
        200
        if record["container_uuid"] or record["state"] == request_phases.RequestState.FINAL
        else 202
    )


async def _new_parent(
    tx: Transaction, call: ApiCall, attributes: Record, subject: ContainerRequest
) -> Parent | None:
    """The container that a change of a draft names as the one that made it."""
    if subject.state is not request_phases.RequestState.UNCOMMITTED or not attributes.get(
        "requesting_container_uuid"
    ):
        return None
    return await find_parent(tx, call, attributes)


_LOOKED_AT: Final = ("mounts", "runtime_token")


MAX_DEPENDENCIES: Final = 10_000
"""Requests that are looked up to find a circle of dependencies, within the transaction."""


async def check_dependencies(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    principal: Principal,
    subject: ContainerRequest,
    known_uuids: Collection[str],
    *,
    is_new: bool = False,
) -> None:
    """Check the requests that a draft depends on, but for `known_uuids`: the caller can read them,
    and none of them waits for the draft. Raises Invalid naming the request at fault.

    `is_new`: the request is not stored yet, so none can wait for it.
    """
    fresh = [uuid for uuid in subject.depends_on if uuid not in known_uuids]
    for uuid in fresh:
        try:
            await authorization.find_readable(tx, clock, config, REQUESTS, uuid, principal)
        except NotFound:
            raise Invalid(f"Depends on: request '{uuid}' not found") from None
    seen_uuids: set[str] = set()
    frontier = [] if is_new else fresh
    while frontier:
        if subject.uuid in frontier:
            raise Invalid(f"Depends on: {subject.uuid} would wait for itself")
        seen_uuids.update(frontier)
        if len(seen_uuids) > MAX_DEPENDENCIES:
            raise Invalid(
                f"Depends on: more than {MAX_DEPENDENCIES} requests would have to end first"
            )
        rows = await records.among(tx, REQUESTS, "uuid", frontier)
        further = (
            uuid for row in rows if row["state"] != RequestState.FINAL for uuid in row["depends_on"]
        )
        frontier = [uuid for uuid in dict.fromkeys(further) if uuid not in seen_uuids]


HANDLERS: Final = {
    "container_requests.list": list_requests,
    "container_requests.get": get_request,
    "container_requests.create": create_request,
    "container_requests.update": update_request,
    "container_requests.delete": delete_request,
    "container_requests.cancel": cancel_request,
    "container_requests.satisfy": satisfy_request,
}
