"""Runs that are written: an attempt is begun, ended, and given requests that were there before.

Source: docs/spec/api, section Runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lading.api import authorization
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.api.resources.runs.reading import get_run
from lading.api.serializer import check_match
from lading.api.transaction import UnitOfWork
from lading.core.containers import request as requests_
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Invalid
from lading.core.quantities import later
from lading.core.records import permissions as group_rules
from lading.core.records.container_types import REQUESTS
from lading.core.records.permissions import GroupClass
from lading.core.records.record_types import COLLECTIONS, GROUPS
from lading.core.records.schema import JSON, Record
from lading.core.runs import attempts
from lading.core.runs.attempts import RunAttempt
from lading.core.runs.parameters import parse_number, parse_object, parse_text
from lading.core.runs.states import RunOutcome
from lading.store import records
from lading.store.database import Transaction

# Seconds by which the clock of one server may be behind that of another.
_SLACK: Final = 60.0
_MOST_ADDED: Final = 1000


async def begin_run(call: ApiCall) -> ApiResponse:
    """Begin or join an attempt: {"uuid", "name", "attempt", "is_new"}. Raises Invalid for a name
    that a project has which is no run.
    """
    async with call.services.database.writing() as tx:
        begun = await begin_within(tx, call, call.params)
    return ApiResponse(body=begun)


async def begin_within(tx: Transaction, call: ApiCall, params: Mapping[str, Any]) -> Record:
    """Begin or join an attempt within a transaction: the answer of `begin_run`. Raises as that."""
    services, caller = call.services, call.caller
    name = attempts.check_name(params.get("name"))
    owner = params.get("project") or caller.user_uuid
    number = parse_number(params.get("attempt"))
    now = services.clock.now()
    fresh = RunAttempt(
        number=0,
        began_at=now,
        since=later(now, -_SLACK),
        session=parse_text("session", params.get("session")),
        user=caller.user_uuid,
        params=parse_object("params", params.get("params")),
        source=parse_object("source", params.get("source")),
    )
    old = await _named(tx, owner, name)
    if old is None:
        project, attempt = await _make(tx, call, name, owner, fresh, number)
    else:
        project, attempt = await _join(tx, call, old["uuid"], fresh, number)
    return {
        "uuid": project["uuid"],
        "name": project["name"],
        "attempt": attempt.number,
        "is_new": attempt.began_at == now,
    }


def as_step(attributes: Mapping[str, JSON], begun: Record) -> Record:
    """The attributes of a request as a step of an attempt that was begun."""
    properties = attributes.get("properties")
    named = properties if isinstance(properties, Mapping) else {}
    return {
        **attributes,
        "owner_uuid": begun["uuid"],
        "properties": {**named, attempts.ATTEMPT: begun["attempt"]},
    }


async def end_run(call: ApiCall) -> ApiResponse:
    """Report the end of the program of an attempt; the run."""
    outcome = str(call.params.get("outcome") or RunOutcome.DONE)
    if outcome not in set(RunOutcome):
        raise Invalid(f"outcome: must be one of {', '.join(RunOutcome)}")
    note = parse_text("note", call.params.get("note"))
    async with call.services.database.writing() as tx:
        project = await _matched(tx, call)
        ended = attempts.end(
            attempts.attempts_of(project["properties"]),
            number=parse_number(call.params.get("attempt")),
            now=call.services.clock.now(),
            outcome=RunOutcome(outcome),
            note=note,
        )
        await _store(tx, call, project, ended)
    return await get_run(call)


async def add_to_run(call: ApiCall) -> ApiResponse:
    """Move requests with their outputs and logs into an attempt; the run. All or none is moved."""
    step = parse_text("step", call.params.get("step"))
    async with call.services.database.writing() as tx:
        project = await _matched(tx, call)
        uuids = call.params.get("uuids")
        if not isinstance(uuids, list) or not 0 < len(uuids) <= _MOST_ADDED:
            raise Invalid(f"uuids: must be a list of 1 to {_MOST_ADDED} uuids of requests")
        all_attempts = attempts.attempts_of(project["properties"])
        attempt = attempts.find_attempt(all_attempts, parse_number(call.params.get("attempt")))
        if attempt is None:
            raise Invalid("attempt: the run has no such attempt; begin one first")
        unit = UnitOfWork(tx, call.services, user_uuid=call.caller.user_uuid)
        for uuid in dict.fromkeys(map(str, uuids)):
            created_at = await _move(unit, call, uuid, attempt.number, step)
            all_attempts = attempts.reach_back(all_attempts, attempt.number, created_at)
        await unit.settle()
        await _store(tx, call, project, all_attempts)
    return await get_run(call)


async def _named(tx: Transaction, owner: JSON, name: str) -> Record | None:
    if not isinstance(owner, str):
        raise Invalid("project: must be the uuid of a project or a user")
    same = await records.matching(tx, GROUPS, owner_uuid=owner, name=name, is_trashed=0)
    return same[0] if same else None


async def _make(
    tx: Transaction, call: ApiCall, name: str, owner: str, fresh: RunAttempt, number: int | None
) -> tuple[Record, RunAttempt]:
    """A new run with its first attempt."""
    all_attempts, attempt = attempts.begin((), fresh, number=number)
    attributes: Record = {
        "name": name,
        "owner_uuid": owner,
        "group_class": GroupClass.PROJECT.value,
        "properties": attempts.properties_of(all_attempts),
    }
    record = generic.new_record(call, GROUPS, attributes)
    slashes = bool(call.services.config.Collections.ForwardSlashNameSubstitution)
    group_rules.check_group(record, None, slashes=slashes)
    await authorization.check_owner(tx, call, owner)
    await generic.insert(tx, call, GROUPS, record)
    return record, attempt


async def _join(
    tx: Transaction, call: ApiCall, uuid: str, fresh: RunAttempt, number: int | None
) -> tuple[Record, RunAttempt]:
    """The next attempt of a run, or one that is joined."""
    project = await _writable(tx, call, uuid)
    before = attempts.attempts_of(project["properties"])
    known, attempt = attempts.begin(before, fresh, number=number)
    # A step that joins changes nothing: a pipeline of a thousand commands writes the record once.
    if known != before:
        await _store(tx, call, project, known)
    return project, attempt


async def _matched(tx: Transaction, call: ApiCall) -> Record:
    """The run that a call names, if the etag of the call is its own. Raises RequestError (412) for
    another one, and as `_writable`.
    """
    project = await _read(tx, call, call.uuid)
    check_match(call, project)
    await _check_run(tx, call, project)
    return project


async def _writable(tx: Transaction, call: ApiCall, uuid: str) -> Record:
    """The project of a run that the caller may change. Raises NotFound, Forbidden, Invalid."""
    project = await _read(tx, call, uuid)
    await _check_run(tx, call, project)
    return project


async def _read(tx: Transaction, call: ApiCall, uuid: str) -> Record:
    services = call.services
    return await authorization.find_readable(
        tx, services.clock, services.config, GROUPS, uuid, call.caller
    )


async def _check_run(tx: Transaction, call: ApiCall, project: Record) -> None:
    if not attempts.is_run(project["properties"]):
        raise Invalid(
            f"name: {project['name'][:80]!r} is a project that is no run; give the run another name"
        )
    await authorization.check_writable(tx, GROUPS, project, call.caller)


async def _store(
    tx: Transaction, call: ApiCall, project: Record, all_attempts: Sequence[RunAttempt]
) -> None:
    properties = {**project["properties"], **attempts.properties_of(all_attempts)}
    await generic.apply(
        tx,
        call.services,
        GROUPS,
        project,
        {"properties": properties},
        user_uuid=call.caller.user_uuid,
    )


async def _move(unit: UnitOfWork, call: ApiCall, uuid: str, number: int, step: str) -> str:
    """Move a request with its output and its log; when it was submitted."""
    tx, services, caller = unit.tx, call.services, call.caller
    row = await authorization.find_readable(
        tx, services.clock, services.config, REQUESTS, uuid, caller
    )
    await authorization.check_writable(tx, REQUESTS, row, caller)
    await authorization.check_owner(tx, call, call.uuid, old=row["owner_uuid"])
    marks: Record = {attempts.ATTEMPT: number}
    if step:
        marks[attempts.STEP] = step
    subject = ContainerRequest.from_record(row)
    change = requests_.update(
        subject,
        {"owner_uuid": call.uuid, "properties": {**row["properties"], **marks}},
        now=unit.now,
        policy=services.policy,
        user_uuid=caller.user_uuid,
        admin=caller.is_admin,
    )
    await unit.change_request(row, change)
    if row["container_uuid"] is not None:
        unit.stale([row["container_uuid"]])
    for name in ("output_uuid", "log_uuid"):
        if row[name] is not None:
            await _move_collection(tx, call, row[name])
    return str(row["created_at"])


async def _move_collection(tx: Transaction, call: ApiCall, uuid: str) -> None:
    """Move a collection, if it is there and the caller may."""
    row = await records.get(tx, COLLECTIONS, uuid)
    if row is None or row["owner_uuid"] == call.uuid:
        return
    await authorization.check_writable(tx, COLLECTIONS, row, call.caller)
    await authorization.check_owner(tx, call, call.uuid, old=row["owner_uuid"])
    changes: Record = {"owner_uuid": call.uuid}
    same = await records.matching(
        tx, COLLECTIONS, owner_uuid=call.uuid, name=row["name"], is_trashed=0
    )
    if same:
        changes["name"] = f"{str(row['name'])[:237]} ({uuid[-15:]})"
    await generic.apply(
        tx, call.services, COLLECTIONS, row, changes, user_uuid=call.caller.user_uuid
    )


HANDLERS: Final = {
    "groups.begin_run": begin_run,
    "groups.end_run": end_run,
    "groups.add_to_run": add_to_run,
}
