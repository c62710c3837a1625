"""Log rows: lists, single rows, rows of users, and what a reader sees of the row on a decision.

Log rows are changes and events of records. Users may add rows of other types than those that the
server writes (docs/spec/api, section Log rows). The row on how a request got its container names
the candidates that its user could read then; each reader gets those that it can read now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeGuard

import msgspec

from lading.api import authorization
from lading.api.events import audit
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.api.serializer import show
from lading.core import ids
from lading.core.containers import reuse_explanation, writers
from lading.core.containers.container import Container, DecisionKind
from lading.core.errors import Forbidden, Invalid
from lading.core.ids import Infix, is_uuid
from lading.core.records import access
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import All, Among, Column, Either, Expression
from lading.core.records.log_rows import LogRowType, check_outsider
from lading.core.records.permissions import Level
from lading.core.records.record_types import BY_INFIX, LOGS
from lading.core.records.schema import Record, RecordType, Type
from lading.store import records
from lading.store.database import Transaction

# Arvados' dispatchers write rows of this type themselves.
_HOLDERS_OWN: Final = DecisionKind.NOT_DISPATCHED
_OURS: Final = {*LogRowType, *DecisionKind} - {_HOLDERS_OWN}


async def list_logs(call: ApiCall) -> ApiResponse:
    """A page of log rows."""
    response = await generic.list_records(call, LOGS)
    if isinstance(response.body, dict) and isinstance(response.body["items"], list):
        await _narrow_rows(call, response.body["items"])
    return response


async def get_log(call: ApiCall) -> ApiResponse:
    """One log row."""
    response = await generic.get_record(call, LOGS)
    if isinstance(response.body, dict):
        await _narrow_rows(call, [response.body])
    return response


async def create_log(call: ApiCall) -> ApiResponse:
    """Add a row about a record that the caller can read."""
    given = generic.check_attributes(call, LOGS, None)
    record = generic.new_record(call, LOGS, {**given, "owner_uuid": call.caller.user_uuid})
    record.pop("id")
    if record["event_type"] in _OURS:
        raise Invalid(f"event_type: '{record['event_type']}' rows are written by the server only")
    uuid = record["object_uuid"]
    if call.caller.is_dispatcher and not (uuid and is_uuid(uuid, Infix.CONTAINER)):
        raise Forbidden(
            "Forbidden: object_uuid: the token of a dispatcher writes rows about containers"
        )
    about: Record | None = None
    async with call.services.database.writing() as tx:
        if uuid is not None:
            kind = BY_INFIX.get(uuid[6:11])
            if kind is None or not kind.stored:
                raise Invalid(f"object_uuid: '{uuid}' not found")
            about = await authorization.find_readable(
                tx,
                call.services.clock,
                call.services.config,
                kind,
                uuid,
                call.caller,
                include_trash=True,
            )
            record["object_owner_uuid"] = about["owner_uuid"]
            if not await _is_responsible(tx, call, kind, about):
                check_outsider(record["event_type"], record["event_at"])
        if record["event_type"] == _HOLDERS_OWN:
            _check_holder(call, about)
        record["event_at"] = record["event_at"] or record["created_at"]
        record["id"] = await records.insert(tx, LOGS, record)
        if audit.is_event(record):
            audit.tell(tx, call.services.database, call.services.events, record)
    return ApiResponse(body=show(LOGS, record))


async def _is_responsible(tx: Transaction, call: ApiCall, kind: RecordType, about: Record) -> bool:
    """Whether the caller may change the record, or holds its container, or it ran for the
    caller.
    """
    if call.caller.is_admin:
        return True
    uuid = about["uuid"]
    if kind is REQUESTS:
        uuid = about["container_uuid"]
    row = about if kind is CONTAINERS else None
    if kind is REQUESTS and uuid is not None:
        row = await records.get(tx, CONTAINERS, uuid)
    if row is not None and _is_held(call, row):
        return True
    if kind is CONTAINERS:
        return (
            not call.caller.is_dispatcher
            and row is not None
            and (row["runtime_user_uuid"] == call.caller.user_uuid)
        )
    return await authorization.level_of(tx, kind, about, call.caller) >= Level.WRITE


def _is_held(call: ApiCall, row: Record) -> bool:
    writer = writers.as_writer(call.caller, row["uuid"])
    return writers.role_of(Container.from_record(row), writer) in writers.HOLDERS


def _check_holder(call: ApiCall, about: Record | None) -> None:
    """Check that the caller holds the container that a decision is about: readers of its requests
    take the row for the word of the dispatcher. Raises Forbidden.
    """
    is_container = about is not None and ids.infix_of(about["uuid"]) == Infix.CONTAINER
    if about is None or not is_container or not _is_held(call, about):
        raise Forbidden(
            f"Forbidden: event_type: '{_HOLDERS_OWN}' rows are written by who holds the container"
        )


async def _narrow_rows(call: ApiCall, rows: Sequence[Record]) -> None:
    """Take what the caller cannot read out of rows on decisions."""
    if call.caller.is_admin:
        return
    decisions: list[Record] = []
    for row in rows:
        found = row.get("properties")
        properties = msgspec.json.decode(found) if isinstance(found, msgspec.Raw) else found
        if _is_decision(properties):
            row["properties"] = properties
            decisions.append(properties)
    if decisions:
        async with call.services.database.reading() as tx:
            for properties in decisions:
                await narrow(tx, call, properties)


def _is_decision(properties: object) -> TypeGuard[Record]:
    """Whether a row has the form of an explanation (`reuse_explanation.explain`); rows of users may
    have any properties.
    """
    if not isinstance(properties, dict) or not isinstance(properties.get("learned", {}), dict):
        return False
    candidates = properties.get("candidates")
    return isinstance(candidates, list) and all(
        isinstance(candidate, dict) and {"container_uuid", "reason"} <= candidate.keys()
        for candidate in candidates
    )


async def narrow(tx: Transaction, call: ApiCall, decision: Record) -> None:
    """Leave in a stored decision only the candidates, and the learned amounts of a container, that
    the caller can read, or that ran for it.
    """
    named = [str(candidate["container_uuid"]) for candidate in decision["candidates"]]
    teacher = str((decision.get("learned") or {}).get("container_uuid") or "")
    readable = await _readable(tx, call, [*named, teacher])
    decision["candidates"] = reuse_explanation.shown_candidates(decision["candidates"], readable)
    # Of a container that was deleted its uuid says nothing.
    if teacher not in readable and await records.among(tx, CONTAINERS, "uuid", [teacher]):
        del decision["learned"]


async def _readable(tx: Transaction, call: ApiCall, uuids: Sequence[str]) -> dict[str, Container]:
    """The containers that the caller can read, or that ran for it, by uuid."""
    where: list[Expression] = [Among(Column("uuid", Type.STRING), tuple(uuids))]
    if may_read := access.readable(CONTAINERS, call.caller, now=call.services.clock.now()):
        of_caller = records.equals(CONTAINERS, "runtime_user_uuid", call.caller.user_uuid)
        where.append(Either((of_caller, All(may_read))))
    rows = await records.find(tx, tx.dialect, CONTAINERS, where)
    return {str(row["uuid"]): Container.from_record(row) for row in rows}


HANDLERS: Final = {
    "logs.list": list_logs,
    "logs.get": get_log,
    "logs.create": create_log,
}
