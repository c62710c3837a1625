"""What dispatchers decided about containers: rows in `logs`, written many at a time, read with the
request.

A row is about the container, so whoever can read a request that points at the container can read
it. The trail of a request has the rows of all its containers, those of earlier attempts too. Nobody
but dispatchers writes such rows, and listeners are not told of them: they explain what the record's
own rows have said already.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from lading.api.dispatcher_statuses import believed_since
from lading.api.http import Call
from lading.core import ids
from lading.core.containers.decisions import Decision
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Conflict, Forbidden, Invalid
from lading.core.ids import Infix
from lading.core.json_values import Json
from lading.core.records import access
from lading.core.records.record_types import CONTAINERS, LOGS
from lading.core.records.schema import Record
from lading.core.timestamps import format_time
from lading.store import leases, records
from lading.store.database import Transaction

_MOST: Final = 1000
_LONGEST: Final = 4000
_OLDEST: Final = 30 * 86400
_LOG: Final = re.compile(r"logs for ([a-z0-9]{5}-dz642-[a-z0-9]{15})( \([a-z0-9]{15}\))?")
EVENT_TYPES: Final = frozenset(one.value for one in Decision)


async def write(call: Call) -> int:
    """Write the `events` of a dispatcher's report; how many were about containers that exist.
    Raises Invalid.
    """
    events = call.params.get("events") or []
    if not isinstance(events, list) or len(events) > _MOST:
        raise Invalid(f"events: must be a list of at most {_MOST} events")
    rows = [_row(call, one) for one in events]
    if not rows:
        return 0
    written = 0
    async with call.services.database.writing() as tx:
        owners: dict[str, str | None] = {}
        for row in rows:
            uuid = row["object_uuid"]
            if uuid not in owners:
                found = await records.get(tx, CONTAINERS, uuid)
                owners[uuid] = found["owner_uuid"] if found else None
            if owners[uuid] is not None:
                await records.insert(tx, LOGS, row | {"object_owner_uuid": owners[uuid]})
                written += 1
    return written


async def check_log(tx: Transaction, call: Call, *collections: Record) -> None:
    """Refuse a dispatcher's token that stores anything but the log of a container that it has
    locked.

    Arvados' crunch-run stores its log with the token of its dispatcher, as "logs for UUID". Raises
    Forbidden.
    """
    caller = call.caller
    if not access.is_dispatcher(caller):
        return
    for one in collections:
        match = _LOG.fullmatch(one["name"] or "")
        row = await records.get(tx, CONTAINERS, match[1]) if match else None
        if (
            row is None
            or row["locked_by_uuid"] != caller.token_uuid
            or one["owner_uuid"] != caller.user_uuid
        ):
            raise Forbidden(
                "Forbidden: the token of a dispatcher stores logs of containers that it has "
                "locked, each in a collection called 'logs for UUID' of its own user, "
                "and nothing else"
            )


async def hold_lease(call: Call) -> None:
    """Renew the lease of the token for the `holder` of a report, if it names one; with `release`
    give it up.

    Two dispatchers with one token would each undo what the other does.
    Raises Conflict while another one lives, Invalid.
    """
    holder, services, token = call.params.get("holder"), call.services, call.caller.token_uuid
    if holder is None:
        return
    if not isinstance(holder, str) or not 0 < len(holder) <= _LONGEST or "\0" in holder:
        raise Invalid(f"holder: must be a text of at most {_LONGEST} characters")
    async with services.database.writing() as tx:
        if call.params.get("release"):
            await leases.release(tx, token, holder)
            return
        now = services.now()
        other = await leases.take(tx, token, holder, now=now, expired=believed_since(now))
    if other is not None:
        raise Conflict(
            f"another dispatcher works with this token: {other.holder}, "
            f"heard of at {other.renewed_at}. Stop that one, "
            "or make this one a token of its own with 'lading admin dispatcher-token'"
        )


async def trail(tx: Transaction, request: ContainerRequest) -> list[Json]:
    """What was decided about the containers of a request, in order of time."""
    uuids = [
        *request.attempted_container_uuids,
        *([request.container_uuid] if request.container_uuid else []),
    ]
    found: list[Record] = []
    for uuid in dict.fromkeys(uuids):
        rows = await records.matching(tx, LOGS, object_uuid=uuid)
        found += [row for row in rows if row["event_type"] in EVENT_TYPES]
    found.sort(key=lambda row: (row["event_at"], row["id"]))
    return [_shown(row) for row in found]


def waited(decisions: list[Json]) -> list[Json]:
    """What the containers of a trail waited for before they ran."""
    rows = (one for one in decisions if isinstance(one, dict) and one["waited"])
    return [{"container_uuid": one["container_uuid"], "text": one["waited"]} for one in rows]


def _row(call: Call, event: object) -> Record:
    services = call.services
    match event:
        case {
            "container_uuid": str(uuid),
            "event_type": str(kind),
            "text": str(text),
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
    now, user = services.now(), call.caller.user_uuid
    text, waited = text[:_LONGEST], event.get("waited") if isinstance(event, dict) else None
    more = {"waited": waited[:_LONGEST]} if isinstance(waited, str) and waited else {}
    return {
        "uuid": services.new_uuid(Infix.LOG),
        "owner_uuid": user,
        "created_at": now,
        "modified_at": now,
        "modified_by_user_uuid": user,
        "object_uuid": uuid,
        "event_at": format_time(services.clock() - timedelta(seconds=min(max(0.0, age), _OLDEST))),
        "event_type": kind,
        "summary": text,
        "properties": {"text": text, "dispatcher": call.caller.token_uuid, **more},
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
