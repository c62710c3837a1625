"""Containers: supervisors write their records, dispatchers lock and unlock them.

Source: docs/spec/api, section Containers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from lading.api import authorization, quotas
from lading.api.background.cancellation_scope import (
    BeingCancelled,
    cancel_container,
    find_ending,
)
from lading.api.cancelled_view import find_view, show_covered
from lading.api.container_access import port_addresses
from lading.api.container_access.gateway_client import choose_address
from lading.api.events import audit
from lading.api.http import ApiCall, ApiResponse
from lading.api.quotas import NoRoom
from lading.api.resources import generic
from lading.api.resources.container_changes import (
    auth_token,
    caller_of,
    find_container,
    output_readable,
    store_change,
    username,
)
from lading.api.resources.container_results import save_spooled
from lading.api.resources.dispatching import check_lease
from lading.api.serializer import check_match, show
from lading.api.transaction import UnitOfWork
from lading.core.containers import lifecycle, recipe, sessions, writers
from lading.core.containers.container import FINAL, Container, ContainerState, DecisionKind
from lading.core.containers.lifecycle import NewTokens
from lading.core.containers.sessions import Places
from lading.core.errors import Forbidden, Invalid, NotFound
from lading.core.ids import Infix, is_uuid
from lading.core.records import access, attributes
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.filters import check_number, check_select
from lading.core.records.record_types import COLLECTIONS, TOKENS
from lading.core.records.schema import Record
from lading.core.scheduling.immediate_start import MOST_IMAGES, starts_at_once
from lading.core.values import JsonObject
from lading.store import records
from lading.store.containers import live
from lading.store.containers.intervals import intervals_of
from lading.store.database import Transaction

_LOCKED: Final = ("uuid", "state", "priority", "auth_uuid", "locked_by_uuid")
MOST_ALTERNATIVES: Final = 100
# Seconds after which a lock is refused where all candidates are being cancelled.
_PAUSE: Final = 0.3
"""Alternatives that a lock may name."""
_RECIPE: Final = recipe.GIVEN


async def list_containers(call: ApiCall) -> ApiResponse:
    """A page of containers."""
    return await generic.list_records(call, CONTAINERS)


async def get_container(call: ApiCall) -> ApiResponse:
    """One container."""
    select = check_select(call.params.get("select"), CONTAINERS)
    async with call.services.database.reading() as tx:
        record = await find_container(tx, call, raw=True)
        view = await find_view(tx, call.services, CONTAINERS)
        if view is not None:
            await show_covered(tx, view, CONTAINERS, [record])
    shown = show(CONTAINERS, record, select)
    if call.caller.supervises == call.uuid:
        shown = _for_supervisor(call, shown, record)
    return ApiResponse(body=shown)


async def current_container(call: ApiCall) -> ApiResponse:
    """The container to which the calling token belongs."""
    if call.caller.container_uuid is None:
        raise NotFound("Token is not associated with a container.")
    call.uuid = call.caller.container_uuid
    return await get_container(call)


async def create_container(call: ApiCall) -> ApiResponse:
    """Create a container without a request (admins)."""
    access.check_admin(call.caller, "make containers")
    services = call.services
    sent = attributes.check(
        call.attributes(CONTAINERS),
        CONTAINERS,
        stored=None,
        admin=False,
        cluster=services.config.ClusterID,
    )
    for name in sent.keys() - set(_RECIPE):
        if sent[name] != CONTAINERS.by_name[name].default:
            raise Invalid(f"{name}: cannot be set when a container is made")
    made_of = recipe.of_container(Container.from_record({**sent, "uuid": ""}))
    if not made_of.command or not made_of.container_image or not made_of.output_path:
        raise Invalid("command, container_image and output_path: can't be blank")
    container = recipe.new_container(
        made_of, uuid=services.ids.new_uuid(Infix.CONTAINER), now=services.clock.now()
    )
    async with services.database.writing() as tx:
        unit = UnitOfWork(tx, services, user_uuid=call.caller.user_uuid)
        row = await unit.add_container(container.to_record())
    return ApiResponse(body=show(CONTAINERS, row))


async def update_container(call: ApiCall) -> ApiResponse:
    """Store the report of a supervisor, of the container itself or of an admin."""
    services = call.services
    select = check_select(call.params.get("select"), CONTAINERS)
    sent = call.attributes(CONTAINERS)
    log = (
        # Saved before the transaction: storing blocks takes long, and no other call may wait for
        # it.
        await _spooled_log(call, sent) if sent.get("state") == ContainerState.CANCELLED else None
    )
    sent = await _with_gateway(call, sent)
    async with services.database.writing() as tx:
        row = await find_container(tx, call)
        await check_lease(tx, call)
        check_match(call, row)
        container = Container.from_record(row)
        if log is not None:
            await generic.insert(tx, log[0], COLLECTIONS, log[1])
            sent = {**sent, "log": log[1]["portable_data_hash"]}
        change = lifecycle.update(
            container,
            sent,
            caller=caller_of(call),
            now=services.clock.now(),
            max_attempts=services.policy.max_dispatch_attempts,
            tokens=_new_tokens(call) if sent.get("state") == "Locked" else None,
            output_readable=await output_readable(tx, call, container, sent),
            places=_places(call),
        )
        # Assigned in the transaction that makes the container Running: the ports of other Running
        # containers are read in it.
        if change.changed.get("state") == ContainerState.RUNNING and container.published_ports:
            assigned = await port_addresses.assign(tx, services, container)
            change = replace(change, changed={**change.changed, "published_ports": assigned})
        row = await store_change(tx, call, row, change)
    if "gateway_address" in change.changed:
        role = writers.role_of(container, caller_of(call))
        services.access.supervisors.note_writer(container, role, call.caller.token)
    return ApiResponse(body=show(CONTAINERS, row, select))


async def _with_gateway(call: ApiCall, sent: Record) -> Record:
    """The report with the gateway address that the server chooses, where the supervisor of the
    container offers one. Outside of transactions: the address may not answer.
    """
    address = sessions.offered(sent.get("gateway_address"))
    if not address or call.caller.supervises != call.uuid:
        return sent
    async with call.services.database.reading() as tx:
        container = Container.from_record(await find_container(tx, call))
    chosen = await choose_address(call.services, container, address, _places(call))
    return {**sent, "gateway_address": chosen}


async def _spooled_log(call: ApiCall, sent: Record) -> tuple[ApiCall, Record] | None:
    """The log of a container whose supervisor is lost (`container_results.save_spooled`)."""
    async with call.services.database.reading() as tx:
        container = Container.from_record(await find_container(tx, call))
    return await save_spooled(call, container, sent)


async def delete_container(call: ApiCall) -> ApiResponse:
    """Remove a container that has ended."""
    access.check_admin(call.caller, "delete containers")
    async with call.services.database.writing() as tx:
        row = await find_container(tx, call)
        check_match(call, row)
        # Containers that have not ended belong to a dispatcher: without the record it would not end
        # them.
        if row["state"] not in FINAL:
            raise Invalid(
                f"State: a container that is {row['state']} cannot be deleted; cancel it first"
            )
        await generic.remove(tx, call.services, CONTAINERS, row, user_uuid=call.caller.user_uuid)
    return ApiResponse(body=show(CONTAINERS, row))


@dataclass(frozen=True, slots=True)
class _LockTerms:
    """Values that a dispatcher sends with a lock: the amounts that it gives, its ready images."""

    amounts: JsonObject
    images: frozenset[str]


async def lock_container(call: ApiCall) -> ApiResponse:
    """Lock a Queued container; the answer has the token for its supervisor.

    With `runtime_constraints` {"ram", "vcpus"} the dispatcher sets the sizes, within
    `constraint_ranges`. With `known` the answer has, under that name, the first records that the
    supervisor needs: its `container` and `auth`. With `alternatives`, uuids of further containers,
    the first one of all that can be locked is locked; `passed` has the records of those before it.
    With `ready_images`, portable data hashes of the images that the dispatcher's machine has ready,
    a container with nothing else to prepare is Running at once (`immediate_start`).
    """
    amounts = call.params.get("runtime_constraints") or {}
    if not isinstance(amounts, dict):
        raise Invalid("runtime_constraints: must be an object of ram and vcpus")
    alternatives = _alternatives(call)
    terms = _LockTerms(amounts, _ready_images(call))
    row, passed = await _lock_first(call, terms, [call.uuid, *alternatives])
    token = row["supervisor_auth_uuid"]
    shown = show(CONTAINERS, row, (*_LOCKED, "runtime_constraints") if amounts else _LOCKED)
    # The token's secret is derived from its uuid (`container_secret`): the database has its hash
    # alone.
    shown["supervisor_token"] = f"v2/{token}/{call.services.ids.container_secret(token)}"
    # Saves the supervisor two calls before it can begin.
    if call.params.get("known"):
        uuid, secret = auth_token(call, Container.from_record(row))
        auth = {"uuid": uuid, "api_token": secret}
        shown["known"] = {
            "container": _for_supervisor(call, show(CONTAINERS, row), row),
            "auth": auth,
        }
    if alternatives:
        shown["passed"] = passed
    return ApiResponse(body=shown)


def _alternatives(call: ApiCall) -> list[str]:
    uuids = call.params.get("alternatives") or []
    if not isinstance(uuids, list) or not all(
        isinstance(uuid, str) and is_uuid(uuid, Infix.CONTAINER) for uuid in uuids
    ):
        raise Invalid("alternatives: must be an array of container uuids")
    if len(uuids) > MOST_ALTERNATIVES:
        raise Invalid(f"alternatives: {len(uuids)} uuids, at most {MOST_ALTERNATIVES} are allowed")
    return list(dict.fromkeys(uuid for uuid in uuids if uuid != call.uuid))


def _ready_images(call: ApiCall) -> frozenset[str]:
    given = call.params.get("ready_images") or []
    if not isinstance(given, list) or not all(isinstance(image, str) for image in given):
        raise Invalid("ready_images: must be an array of portable data hashes")
    if len(given) > MOST_IMAGES:
        raise Invalid(f"ready_images: {len(given)} hashes, at most {MOST_IMAGES} are allowed")
    return frozenset(given)


async def _lock_first(
    call: ApiCall, terms: _LockTerms, candidates: Sequence[str]
) -> tuple[Record, list[Record]]:
    """Lock the first of `candidates` that can be locked; its row, and the records of those before
    it. Raises the error of the first one when none can be locked.
    """
    passed: list[Record] = []
    while True:
        try:
            row, before = await _lock_within(call, terms, candidates)
            return row, [*passed, *before]
        except BeingCancelled:
            candidates = await _pass_cancelled(call, candidates)
            if not candidates:
                # Nothing else can be locked now. A dispatcher that asked again at once would take
                # the time of the cancellation.
                await asyncio.sleep(_PAUSE)
                raise
            call.uuid = candidates[0]
        except NoRoom:
            candidates = candidates[candidates.index(call.uuid) + 1 :]
            if not candidates:
                raise
            call.uuid = candidates[0]


async def _pass_cancelled(call: ApiCall, candidates: Sequence[str]) -> Sequence[str]:
    """Cancel the requests of the container that a call names, which are being cancelled; the
    candidates after it whose requests are not.
    """
    # The transaction of the lock was undone.
    await cancel_container(call.services, call.uuid)
    others = candidates[candidates.index(call.uuid) + 1 :]
    ending = await find_ending(call.services, others)
    return [uuid for uuid in others if uuid not in ending]


async def _first_lockable(tx: Transaction, uuids: Sequence[str]) -> tuple[str, list[Record]]:
    """The first container that can be locked, and the records before it; the first of all if none
    can be.
    """
    # Writers take turns, in all processes: no other transaction holds one of these rows, and what
    # is read here is true until the end of this one.
    found = await live.states(tx, uuids)
    passed: list[Record] = []
    for uuid in uuids:
        record = found.get(uuid)
        if record is not None and lifecycle.is_lockable(record):
            return uuid, passed
        if record is not None:
            passed.append(record)
    return uuids[0], []


async def _lock(
    call: ApiCall, terms: _LockTerms, candidates: Sequence[str]
) -> tuple[Record, list[Record]]:
    async with call.services.database.writing() as tx:
        passed: list[Record] = []
        # Others can lock none, and must not learn which one could be locked.
        if len(candidates) > 1 and (call.caller.is_dispatcher or call.caller.is_admin):
            call.uuid, passed = await _first_lockable(tx, candidates)
        row = await _find_for_lock(tx, call)
        await check_lease(tx, call)
        check_match(call, row)
        change = lifecycle.lock(
            Container.from_record(row),
            caller=caller_of(call),
            tokens=_new_tokens(call),
            amounts=terms.amounts,
        )
        row = await store_change(tx, call, row, change)
        return await _start_at_once(tx, call, row, terms.images), passed


async def _start_at_once(
    tx: Transaction, call: ApiCall, row: Record, images: frozenset[str]
) -> Record:
    """Make a container that was just locked Running, if it has nothing to prepare on a machine
    with these images; its row. Clients see both changes, as if they were two calls.
    """
    container = Container.from_record(row)
    if not images or not starts_at_once(container, images):
        return row
    running = lifecycle.update(
        container,
        {"state": ContainerState.RUNNING},
        caller=caller_of(call),
        now=call.services.clock.now(),
    )
    return await store_change(tx, call, row, running)


async def _find_for_lock(tx: Transaction, call: ApiCall) -> Record:
    """The container to lock. Raises NotFound.

    A dispatcher that came too late cannot read the container any more, and is told its state alone.
    """
    row = await records.get(tx, CONTAINERS, call.uuid) if call.caller.is_dispatcher else None
    return await find_container(tx, call) if row is None else row


async def _lock_within(
    call: ApiCall, terms: _LockTerms, candidates: Sequence[str]
) -> tuple[Record, list[Record]]:
    """Lock a container as the quotas of its requests allow: with the least amounts where these
    have no room. Raises NoRoom and BeingCancelled; `call` names the container then.
    """
    try:
        return await _lock(call, terms, candidates)
    except NoRoom:
        if terms.amounts:
            return await _lock_within(call, _LockTerms({}, terms.images), candidates)
        # The transaction of the lock was undone: its requests are to wait for their quotas.
        async with call.services.database.writing() as tx:
            unit = UnitOfWork(tx, call.services, user_uuid=call.caller.user_uuid)
            await quotas.refuse(unit, call.uuid)
            await unit.settle()
        raise


async def unlock_container(call: ApiCall) -> ApiResponse:
    """Unlock a container: it is Queued again. The trail tells of an admin who does it for another
    holder.
    """
    services = call.services
    async with services.database.writing() as tx:
        row = await find_container(tx, call)
        await check_lease(tx, call)
        check_match(call, row)
        role = writers.role_of(Container.from_record(row), caller_of(call))
        change = lifecycle.unlock(
            Container.from_record(row),
            caller=caller_of(call),
            now=services.clock.now(),
            max_attempts=services.policy.max_dispatch_attempts,
        )
        row = await store_change(tx, call, row, change)
        if role is writers.Role.ADMIN:
            text = f"Given back by the administrator {await username(tx, call)}."
            said = {"text": text, "user_uuid": call.caller.user_uuid}
            await audit.note(tx, services, row, DecisionKind.ABANDONED, text, said)
    return ApiResponse(body=show(CONTAINERS, row))


async def get_auth(call: ApiCall) -> ApiResponse:
    """The container's own token, for the holder of its lock and for its supervisor."""
    services = call.services
    async with services.database.reading() as tx:
        row = await find_container(tx, call)
        container = Container.from_record(row)
        writers.check_may_read_auth(container, caller_of(call))
        uuid, secret = auth_token(call, container)
        token = await records.get(tx, TOKENS, uuid)
    if token is None:
        raise NotFound(f"Path not found: container {call.uuid} has no token")
    return ApiResponse(body={**show(TOKENS, token), "api_token": secret})


async def update_priority(call: ApiCall) -> ApiResponse:
    """Compute the priority of a container anew."""
    access.check_admin(call.caller, "recompute priorities")
    async with call.services.database.writing() as tx:
        check_match(call, await find_container(tx, call))
        unit = UnitOfWork(tx, call.services, user_uuid=call.caller.user_uuid)
        unit.stale([call.uuid])
        await unit.settle()
        row = await find_container(tx, call)
    return ApiResponse(body=show(CONTAINERS, row))


async def get_secret_mounts(call: ApiCall) -> ApiResponse:
    """The secret mounts, for the container's own token only."""
    async with call.services.database.reading() as tx:
        row = await find_container(tx, call)
    writers.check_may_read_secrets(Container.from_record(row), caller_of(call))
    return ApiResponse(body={"secret_mounts": row["secret_mounts"]})


async def report_progress(call: ApiCall) -> ApiResponse:
    """{"progress": 0 to 1}, from the container itself."""
    sent = call.attributes(CONTAINERS)
    # Progress alone: other attributes of a Running container belong to its supervisor.
    if sent.keys() != {"progress"}:
        raise Invalid("progress: send it and nothing else, as a number from 0 to 1")
    async with call.services.database.writing() as tx:
        row = await find_container(tx, call)
        container, caller = Container.from_record(row), caller_of(call)
        if writers.role_of(container, caller) is not writers.Role.OWN:
            raise Forbidden("Token is not associated with this container.")
        row = await store_change(
            tx,
            call,
            row,
            lifecycle.update(container, sent, caller=caller, now=call.services.clock.now()),
        )
    return ApiResponse(
        body=show(CONTAINERS, row, check_select(call.params.get("select"), CONTAINERS))
    )


async def get_accounting(call: ApiCall) -> ApiResponse:
    """The intervals in which a container held resources, each with request, user, priority and
    state.

    {"items": [{"start", "end": null while it lasts, "user_uuid", "container_request_uuid",
    "container_request_priority", "container_state"}]}; admins see all intervals, other users those
    of requests that they can read.
    """
    services, caller = call.services, call.caller
    async with services.database.reading() as tx:
        await find_container(tx, call)
        intervals = await intervals_of(tx, call.uuid)
        requests = dict.fromkeys(interval.request_uuid for interval in intervals)
        if not caller.is_admin:
            rows = await records.among(tx, REQUESTS, "uuid", requests)
            requests = {
                row["uuid"]: None
                for row in rows
                if await authorization.can_read(
                    tx, services.clock, services.config, REQUESTS, row, caller
                )
            }
    items = [
        {
            "start": interval.started_at,
            "end": interval.ended_at,
            "user_uuid": interval.user_uuid,
            "container_request_uuid": interval.request_uuid,
            "container_request_priority": interval.priority,
            "container_state": interval.state,
        }
        for interval in intervals
        if interval.request_uuid in requests
    ]
    return ApiResponse(body={"items": items})


async def append_live(call: ApiCall) -> ApiResponse:
    """Append to one of the live logs of a container."""
    async with call.services.database.reading() as tx:
        row = await find_container(tx, call)
    role = writers.role_of(Container.from_record(row), caller_of(call))
    if role not in writers.HOLDERS:
        raise Forbidden("Forbidden: live logs are written by the container's supervisor")
    offset = check_number(call.params, "offset", 0)
    return ApiResponse(
        body={
            "length": call.services.access.spool.append(
                call.uuid, call.subpath, call.raw, offset=offset
            )
        }
    )


def _places(call: ApiCall) -> Places:
    """The addresses that the gateway of a container may have whose supervisor makes this call."""
    services = call.services
    return Places(
        source=call.address, server=services.config.ExternalURL, hosts=services.access.gateway_hosts
    )


def _new_tokens(call: ApiCall) -> NewTokens:
    services = call.services
    return NewTokens(
        auth_uuid=services.ids.new_uuid(Infix.TOKEN),
        supervisor_uuid=services.ids.new_uuid(Infix.TOKEN),
    )


def _for_supervisor(call: ApiCall, shown: Record, record: Record) -> Record:
    """A record as its supervisor sees it: with the hash of the secret mounts, which tells whether
    there are any, and the key of the gateway.
    """
    key = call.services.access.gateway_key(record["uuid"])
    return {**shown, "secret_mounts_md5": record["secret_mounts_md5"], "gateway_auth_secret": key}


HANDLERS: Final = {
    "containers.list": list_containers,
    "containers.get": get_container,
    "containers.create": create_container,
    "containers.update": update_container,
    "containers.delete": delete_container,
    "containers.lock": lock_container,
    "containers.unlock": unlock_container,
    "containers.auth": get_auth,
    "containers.update_priority": update_priority,
    "containers.secret_mounts": get_secret_mounts,
    "containers.current": current_container,
    "containers.live": append_live,
    "containers.progress": report_progress,
    "containers.accounting": get_accounting,
}
