"""What dispatchers decided about containers: rows in `logs`, written many at a time, read with the request.

A row is about the container, so whoever can read a request that points at the container can read it. The trail of a
request has the rows of all its containers, those of earlier attempts too. Nobody but dispatchers writes such rows, and
listeners are not told of them: they explain what the record's own rows have said already.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from lading.api.exchange import Call
from lading.core import ids
from lading.core.decisions import Decision
from lading.core.errors import Invalid
from lading.core.ids import Infix
from lading.core.jsonvalue import Json
from lading.core.records import CONTAINERS, LOGS
from lading.core.request import ContainerRequest
from lading.core.schema import Record
from lading.core.timestamps import format_time
from lading.store import records
from lading.store.database import Transaction

_MOST: Final = 1000
_LONGEST: Final = 4000
_OLDEST: Final = 30 * 86400
EVENT_TYPES: Final = frozenset(one.value for one in Decision)


async def write(call: Call) -> int:
    """Write the `events` of a dispatcher's report; how many were about containers that exist. Raises Invalid."""
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


async def trail(tx: Transaction, request: ContainerRequest) -> list[Json]:
    """What was decided about the containers of a request, in order of time."""
    uuids = [*request.attempted_container_uuids, *([request.container_uuid] if request.container_uuid else [])]
    found: list[Record] = []
    for uuid in dict.fromkeys(uuids):
        rows = await records.matching(tx, LOGS, object_uuid=uuid)
        found += [row for row in rows if row["event_type"] in EVENT_TYPES]
    found.sort(key=lambda row: (row["event_at"], row["id"]))
    return [_shown(row) for row in found]


def _row(call: Call, event: object) -> Record:
    services = call.services
    match event:
        case {"container_uuid": str(uuid), "event_type": str(kind), "text": str(text), "age": float() | int() as age}:
            pass
        case _:
            raise Invalid("events: each needs container_uuid, event_type, text and age")
    if not ids.is_uuid(uuid, Infix.CONTAINER):
        raise Invalid(f"events: container_uuid {uuid[:40]!r} is not the uuid of a container")
    if kind not in EVENT_TYPES:
        raise Invalid(f"events: event_type {kind[:40]!r} is unknown; use {', '.join(sorted(EVENT_TYPES))}")
    now, user = services.now(), call.caller.user_uuid
    text = text[:_LONGEST]
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
        "properties": {"text": text, "dispatcher": call.caller.token_uuid},
    }


def _shown(row: Record) -> dict[str, Json]:
    return {
        "at": row["event_at"],
        "container_uuid": row["object_uuid"],
        "event_type": row["event_type"],
        "text": row["summary"],
        "dispatcher": row["properties"].get("dispatcher"),
    }
