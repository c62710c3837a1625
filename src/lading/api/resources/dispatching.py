"""Reports of dispatchers, and log rows.

A dispatcher reports why containers wait, its decisions about them, containers that fit no worker,
and the lease of its token (docs/spec/dispatch, sections Reports and Leases). A decision becomes a
row in `logs` about its container, so that each reader of a request of the container can read it.
Only dispatchers write such rows, each about what waits or what it was the last to lock; that it was
too late for another container it says once, in the words of the server. No event is sent for them:
the events of the record itself have the same information. `trail` has the rows of all containers of
a request, those of earlier attempts too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Final

from lading.api import authorization, expectations
from lading.api.http import ApiCall, ApiResponse
from lading.api.server.wait_statuses import STATUSES
from lading.api.services import ApiServices
from lading.api.transaction import UnitOfWork
from lading.core import ids
from lading.core.containers import lifecycle, writers
from lading.core.containers.container import Container, ContainerState, DecisionKind
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Conflict, Forbidden, Invalid
from lading.core.ids import Infix, is_uuid
from lading.core.quantities import format_time
from lading.core.records import access
from lading.core.records.container_types import CONTAINERS
from lading.core.records.expressions import Among, Column, Query, SortKey
from lading.core.records.record_types import COLLECTIONS, LOGS
from lading.core.records.schema import JSON, Record, Type
from lading.core.scheduling import leases
from lading.core.scheduling.wait_reasons import WaitReason, misfit
from lading.core.values import Json
from lading.store import dispatcher_leases, records
from lading.store.containers import live
from lading.store.database import Dialect, Transaction

# Events of one report; a dispatcher sends more in further reports.
_MOST: Final = 1000
# Characters of the text of an event.
_LONGEST: Final = 4000
# Seconds: an event is dated back by at most 30 days, for a dispatcher without a connection.
_OLDEST: Final = 30 * 86400
# Name of the collection with a container's log.
_LOG: Final = re.compile(r"logs for ([a-z0-9]{5}-dz642-[a-z0-9]{15})( \([a-z0-9]{15}\))?")
EVENT_TYPES: Final = frozenset(kind.value for kind in DecisionKind)


# Header with the id of the lease under which a dispatcher makes a call.
_LEASE: Final = "x-lading-lease"
_SAID: Final = "dispatcher"
# Characters of a reason, which is a word, and of a sentence.
_LONGEST_REASON: Final = 40
_LONGEST_SENTENCE: Final = 2000
_TOO_LATE: Final = "Could not be locked: another dispatcher was first."
_MOST_DECISIONS: Final = 1000
# Containers in one report; each is looked up.
_MOST_MISFITS: Final = 10_000


async def put_statuses(call: ApiCall) -> ApiResponse:
    """Store a dispatcher's report: the reasons for which containers wait, and its decisions.

    {"items": {container uuid: {"reason", "sentence"}, or a sentence alone; "" withdraws it}; {} is
    a sign of life; "events": [{"container_uuid", "event_type": see `core.containers.container`,
    "text", "age": seconds since then, "waited": the past waits, optional}]. Each event becomes a
    row in `logs`. "misfits": uuids of containers that no worker of the dispatcher could hold for a
    while; unless another dispatcher can, clients are warned in runtime_status. "holder": who works
    with this token, HOST:DIRECTORY; another one is refused (409) for three minutes after the last
    report, or until "release": true.
    """
    access.check_dispatching(call.caller, "report scheduling")
    # The lease first: a dispatcher without it must not change statuses or events.
    await hold_lease(call)
    items = call.params.get("items")
    if not isinstance(items, dict):
        raise Invalid("items: must be an object with a reason for each container uuid")
    statuses = {uuid: _wait_reason(uuid, status) for uuid, status in items.items()}
    statuses = await _own_word(call, statuses)
    written = await write_events(call)
    await call.services.features[STATUSES].report(
        call.caller.token_uuid, statuses, call.services.clock.now()
    )
    if statuses:
        await expectations.take_in(call.services, statuses)
    await warn_misfits(call, statuses)
    return ApiResponse(body={"items": len(items), "events": written})


async def _own_word(
    call: ApiCall, statuses: Mapping[str, WaitReason | None]
) -> dict[str, WaitReason | None]:
    """The statuses of a report that count: those that are withdrawn, and those of containers that
    the caller can read; a dispatcher reads what waits and what it has locked.
    """
    named = [uuid for uuid, status in statuses.items() if status is not None]
    if not named or call.caller.is_admin:
        return dict(statuses)
    services = call.services
    async with services.database.reading() as tx:
        readable = await authorization.readable_uuids(
            tx, services.clock, services.config, CONTAINERS, named, call.caller
        )
    return {uuid: status for uuid, status in statuses.items() if status is None or uuid in readable}


def _wait_reason(uuid: str, status: JSON) -> WaitReason | None:
    if not is_uuid(uuid, Infix.CONTAINER):
        raise Invalid(f"items: {uuid[:60]!r} is not the uuid of a container")
    if status in ("", None):
        return None
    fields = {"reason": _SAID, "sentence": status} if isinstance(status, str) else status
    reason, sentence = (
        (fields.get("reason"), fields.get("sentence")) if isinstance(fields, dict) else (None, None)
    )
    # PostgreSQL stores no NUL character.
    if not isinstance(reason, str) or not isinstance(sentence, str) or "\0" in reason + sentence:
        raise Invalid(
            f"items.{uuid}: must be a sentence, or an object with the texts reason and sentence"
        )
    if not reason or len(reason) > _LONGEST_REASON or len(sentence) > _LONGEST_SENTENCE:
        raise Invalid(
            f"items.{uuid}: a reason may have {_LONGEST_REASON} characters, "
            f"a sentence {_LONGEST_SENTENCE}"
        )
    return WaitReason(reason, sentence)


async def write_events(call: ApiCall) -> int:
    """Write the `events` of a dispatcher's report; the number of those that count
    (`writers.concerns`). Raises Invalid.
    """
    events = call.params.get("events") or []
    if not isinstance(events, list) or len(events) > _MOST:
        raise Invalid(f"events: must be a list of at most {_MOST} events")
    rows = [_row(call, event) for event in events]
    if not rows:
        return 0
    written = 0
    async with call.services.database.writing() as tx:
        about: dict[str, Record | None] = {}
        for row in rows:
            uuid = row["object_uuid"]
            # Many events of one report are about the same containers: each is looked up once.
            if uuid not in about:
                about[uuid] = await records.get(tx, CONTAINERS, uuid)
            counted = await _counted(tx, call, row, about[uuid])
            if counted is not None:
                await records.insert(tx, LOGS, counted)
                written += 1
    return written


async def _counted(
    tx: Transaction, call: ApiCall, row: Record, container: Record | None
) -> Record | None:
    """The row to store for an event about a container, None for one that does not count."""
    if container is None:
        return None
    row = row | {"object_owner_uuid": container["owner_uuid"]}
    caller = writers.as_writer(call.caller, container["uuid"])
    if writers.concerns(Container.from_record(container), caller):
        return row
    # Of the container of another dispatcher it can say that it came too late, and no more.
    if row["event_type"] != DecisionKind.LOCK_FAILED:
        return None
    token = call.caller.token_uuid
    earlier = await records.matching(
        tx, LOGS, object_uuid=row["object_uuid"], event_type=DecisionKind.LOCK_FAILED.value
    )
    if any(event_row["properties"].get("dispatcher") == token for event_row in earlier):
        return None
    properties = {"text": _TOO_LATE, "dispatcher": token}
    return row | {"summary": _TOO_LATE, "properties": properties}


async def check_log(tx: Transaction, call: ApiCall, *collections: Record) -> None:
    """Check that a dispatcher's token stores nothing but the log of a container that it has locked.
    Raises Forbidden.

    Arvados' crunch-run stores its log with the token of its dispatcher, as "logs for UUID".
    """
    caller = call.caller
    if not caller.is_dispatcher:
        return
    for collection in collections:
        match = _LOG.fullmatch(collection["name"] or "")
        row = await records.get(tx, CONTAINERS, match[1]) if match else None
        if (
            row is None
            or row["locked_by_uuid"] != caller.token_uuid
            or collection["owner_uuid"] != caller.user_uuid
        ):
            raise Forbidden(
                "Forbidden: the token of a dispatcher stores logs of containers that it has "
                "locked, each in a collection called 'logs for UUID' of its own user, "
                "and nothing else"
            )


async def is_own_log(tx: Transaction, call: ApiCall, pdh: str) -> bool:
    """Whether a dispatcher has stored this content as the log of the container of the call."""
    if not call.caller.is_dispatcher:
        return False
    rows = await records.matching(
        tx, COLLECTIONS, portable_data_hash=pdh, owner_uuid=call.caller.user_uuid
    )
    matches = (_LOG.fullmatch(row["name"] or "") for row in rows)
    return any(match is not None and match[1] == call.uuid for match in matches)


async def hold_lease(call: ApiCall) -> None:
    """Renew the lease of the token for the `holder` and `lease` of a report, if the report names
    them; with `release` end it.

    Two dispatchers with one token would each undo the work of the other. Raises Conflict while
    another process has the lease, Invalid.
    """
    holder, services, token = call.params.get("holder"), call.services, call.caller.token_uuid
    if holder is None:
        async with services.database.reading() as tx:
            await check_lease(tx, call)
        return
    asked = leases.read(holder, call.params.get("lease"), now=services.clock.now())
    async with services.database.writing() as tx:
        stored = await dispatcher_leases.lease_of(tx, token)
        if call.params.get("release"):
            if stored is not None and leases.is_same(stored, asked):
                await dispatcher_leases.release_lease(tx, token)
            return
        # A process names the lease in the header of its calls once it has it.
        renews = bool(asked.id) and call.headers.get(_LEASE) == asked.id
        if stored is not None and not leases.may_take(stored, asked, renews=renews):
            raise Conflict(leases.refusal(stored))
        await dispatcher_leases.put_lease(tx, token, asked)


async def check_lease(tx: Transaction, call: ApiCall) -> None:
    """Check, in the transaction of a call, that the process that makes it has not been replaced by
    another one with its token. Raises Conflict.

    Calls without the id of a lease, as those of Arvados' dispatchers, are let in.
    """
    sent = call.headers.get(_LEASE)
    if sent:
        stored = await dispatcher_leases.lease_of(tx, call.caller.token_uuid)
        if stored is not None and stored.id and stored.id != sent:
            raise Conflict(leases.refusal(stored))


async def trail(tx: Transaction, dialect: Dialect, request: ContainerRequest) -> list[Json]:
    """The decisions of dispatchers about the containers of a request, in order of time; the latest
    ones of more than 1,000.
    """
    uuids = [
        *request.attempted_container_uuids,
        *([request.container_uuid] if request.container_uuid else []),
    ]
    if not uuids:
        return []
    query = Query(
        where=(
            Among(Column("object_uuid", Type.STRING), tuple(dict.fromkeys(uuids))),
            Among(Column("event_type", Type.STRING), tuple(sorted(EVENT_TYPES))),
        ),
        order=(SortKey("id", descending=True),),
        select=tuple(column.name for column in LOGS.columns),
        limit=_MOST_DECISIONS,
    )
    rows = await records.search(tx, dialect, LOGS, query)
    rows.sort(key=lambda row: (row["event_at"], row["id"]))
    return [_shown(row) for row in rows]


def waited(decisions: list[Json]) -> list[Json]:
    """The reasons for which the containers of a trail waited before they ran."""
    rows = (decision for decision in decisions if isinstance(decision, dict) and decision["waited"])
    return [
        {"container_uuid": decision["container_uuid"], "text": decision["waited"]}
        for decision in rows
    ]


def _row(call: ApiCall, event: object) -> Record:
    services = call.services
    match event:
        case {
            "container_uuid": str(uuid),
            "event_type": str(kind),
            "text": str(message),
            "age": float() | int() as age,
        }:
            pass
        case _:
            raise Invalid("events: each needs container_uuid, event_type, text and age")
    if not ids.is_uuid(uuid, Infix.CONTAINER):
        raise Invalid(f"events: container_uuid {uuid[:40]!r} is not the uuid of a container")
    if kind not in EVENT_TYPES:
        raise Invalid(
            f"events: event_type {kind[:40]!r} is unknown; use {', '.join(sorted(EVENT_TYPES))}"
        )
    now, user = services.clock.now(), call.caller.user_uuid
    message, waited = message[:_LONGEST], event.get("waited") if isinstance(event, dict) else None
    more = {"waited": waited[:_LONGEST]} if isinstance(waited, str) and waited else {}
    return {
        "uuid": services.ids.new_uuid(Infix.LOG),
        "owner_uuid": user,
        "created_at": now,
        "modified_at": now,
        "modified_by_user_uuid": user,
        "object_uuid": uuid,
        # Ages, not times: the clocks of a dispatcher and of the server may differ.
        "event_at": format_time(
            services.clock.time() - timedelta(seconds=min(max(0.0, age), _OLDEST))
        ),
        "event_type": kind,
        "summary": message,
        "properties": {"text": message, "dispatcher": call.caller.token_uuid, **more},
    }


def _shown(row: Record) -> dict[str, Json]:
    return {
        "at": row["event_at"],
        "container_uuid": row["object_uuid"],
        "event_type": row["event_type"],
        "text": row["summary"],
        "dispatcher": row["properties"].get("dispatcher"),
        "waited": row["properties"].get("waited"),
    }


def _read_misfits(call: ApiCall) -> list[str]:
    misfits = call.params.get("misfits") or []
    if (
        not isinstance(misfits, list)
        or len(misfits) > _MOST_MISFITS
        or not all(isinstance(uuid, str) for uuid in misfits)
    ):
        raise Invalid(f"misfits: must be a list of at most {_MOST_MISFITS} uuids of containers")
    return misfits


async def _changed_warnings(
    services: ApiServices, misfits: Collection[str], reported: Collection[str]
) -> dict[str, str]:
    """The warnings that differ from those that containers have, by container; "" for none."""
    warnings: dict[str, str] = {}
    # One transaction that only reads: most reports change no warning, and writers wait for each
    # other.
    async with services.database.reading() as tx:
        warned = await live.warned(tx, reported)
        for uuid in {*misfits, *warned}:
            warning = misfit(
                await services.features[STATUSES].about(tx, uuid, services.clock.now())
            )
            if warning != warned.get(uuid, ""):
                warnings[uuid] = warning
    return warnings


async def warn_misfits(call: ApiCall, reported: Collection[str]) -> None:
    """Warn the clients of waiting containers that no dispatcher can ever run, in `runtime_status`,
    and withdraw warnings that no longer hold.

    `reported` are the containers that the report has a status of. The report lists in `misfits` the
    containers that no worker of its dispatcher could hold for a while; since another dispatcher may
    be able to run them, the server warns only when all dispatchers with a status of the container
    say so. Raises Invalid.
    """
    services = call.services
    misfits = _read_misfits(call)
    if not misfits and not reported:
        return
    warnings = await _changed_warnings(services, misfits, reported)
    # A transaction for each container: a report may name thousands.
    for uuid, warning in sorted(warnings.items()):
        async with services.database.writing() as tx:
            row = await records.get(tx, CONTAINERS, uuid)
            if row is not None and row["state"] == ContainerState.QUEUED:
                unit = UnitOfWork(tx, services, user_uuid=services.ids.system_user)
                await unit.change_container(
                    row, lifecycle.warn(Container.from_record(row), warning)
                )
                await unit.settle()
