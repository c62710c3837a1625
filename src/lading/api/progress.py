"""How a request is doing, and why: status, explanation, preview; and what dispatchers say about waiting containers."""

from __future__ import annotations

import dataclasses
from typing import Final

from lading.api import generic, saved
from lading.api.exchange import Answer, Call
from lading.api.requests import find_parent
from lading.api.resolving import decide, find_nearest
from lading.core import access, explain, recipe, request
from lading.core.container import HIDDEN, Container
from lading.core.errors import Invalid
from lading.core.ids import Infix
from lading.core.recipe import Recipe
from lading.core.records import CONTAINERS, LOGS, REQUESTS
from lading.core.request import ContainerRequest
from lading.core.reuse import New, Reuse
from lading.core.schema import JSON, Record
from lading.store import records
from lading.store.database import Transaction

_SHOWN: Final = (
    "uuid",
    "state",
    "priority",
    "exit_code",
    "runtime_status",
    "created_at",
    "started_at",
    "finished_at",
    "output",
    "log",
    "lock_count",
)


async def get_status(call: Call) -> Answer:
    """{uuid, container_state, scheduling_status}: the state of a request's container and what it waits for."""
    async with call.services.database.reading() as tx:
        row = await generic.find_readable(tx, call.services, REQUESTS, call.uuid, call.caller)
        container = await _container(tx, row)
    if container is None:
        body = {"uuid": "", "container_state": "", "scheduling_status": explain.status_sentence(None, None)}
    else:
        sentence = explain.status_sentence(container, call.services.statuses.get(container.uuid))
        body = {"uuid": container.uuid, "container_state": container.state, "scheduling_status": sentence}
    return Answer(body=body)


async def get_why(call: Call) -> Answer:
    """Why a request is where it is.

    {"request_uuid", "state", "priority", "outcome": one sentence, "scheduling_status": one sentence,
    "container": null | {uuid, state, exit_code, runtime_status, ...}, "attempted_container_uuids",
    "decided_at": null | time, "decision": null | {see `core.explain.explain`; "nearest" is filled in for "new"}}
    """
    services = call.services
    async with services.database.reading() as tx:
        row = await generic.find_readable(tx, services, REQUESTS, call.uuid, call.caller)
        container = await _container(tx, row)
        decided = await _decision(tx, call)
        decision: Record | None = decided["properties"] if decided else None
        if decision is not None and decision["decision"] == "new":
            decision = {**decision, "nearest": await _nearest(tx, decision["container_uuid"])}
    subject = ContainerRequest.from_record(row)
    sentence = services.statuses.get(container.uuid) if container else None
    return Answer(
        body={
            "request_uuid": subject.uuid,
            "state": subject.state,
            "priority": subject.priority,
            "outcome": explain.outcome(subject, container),
            "scheduling_status": explain.status_sentence(container, sentence),
            "container": {name: getattr(container, name) for name in _SHOWN} if container else None,
            "attempted_container_uuids": subject.attempted_container_uuids,
            "decided_at": decided["event_at"] if decided else None,
            "decision": decision,
        }
    )


async def preview(call: Call) -> Answer:
    """What a create with this body would do: the explanation, and the recipe of the container. Nothing is stored."""
    services, caller = call.services, call.caller
    given = call.attributes(REQUESTS)
    wanted = {**given, "state": request.State.COMMITTED, "priority": given.get("priority") or 0}
    async with services.database.reading() as tx:
        now = services.now()
        change = request.create(
            wanted,
            uuid=services.new_uuid(Infix.REQUEST),
            owner_uuid=caller.user_uuid,
            user_uuid=caller.user_uuid,
            now=now,
            policy=services.policy,
            parent=await find_parent(tx, call, given),
        )
        decision = await decide(tx, services, change.request, caller)
        reused = isinstance(decision.choice, Reuse)
        near = None if reused else await find_nearest(tx, decision.recipe, now)
    uuid = decision.choice.container.uuid if isinstance(decision.choice, Reuse) else None
    return Answer(
        body={
            **explain.explain(decision.choice, container_uuid=uuid, near=near),
            "container_state": decision.choice.container.state if isinstance(decision.choice, Reuse) else None,
            "recipe": _recipe(decision.recipe),
        }
    )


async def put_statuses(call: Call) -> Answer:
    """Remember why containers wait: {"items": {container uuid: sentence}}, from a dispatcher."""
    access.check_admin(call.caller, "report scheduling")
    items = call.params.get("items")
    if not isinstance(items, dict) or not all(isinstance(one, str) for one in items.values()):
        raise Invalid("items: must be an object of container uuids and sentences")
    for uuid, sentence in items.items():
        call.services.statuses.put(uuid, sentence)
    return Answer(body={"items": len(items)})


async def get_log(call: Call) -> Answer:
    """A file of the log of one of the request's containers, or the files that there are."""
    async with call.services.database.reading() as tx:
        row = await generic.find_readable(tx, call.services, REQUESTS, call.uuid, call.caller)
        container = await _container(tx, row)
        return await saved.serve(tx, call, row, container)


async def _container(tx: Transaction, row: Record) -> Container | None:
    if row["container_uuid"] is None:
        return None
    found = await records.get(tx, CONTAINERS, row["container_uuid"])
    return Container.from_record(found) if found else None


async def _decision(tx: Transaction, call: Call) -> Record | None:
    rows = await records.matching(tx, LOGS, object_uuid=call.uuid, event_type="resolve")
    return max(rows, key=lambda row: int(row["id"])) if rows else None


async def _nearest(tx: Transaction, container_uuid: str) -> JSON:
    row = await records.get(tx, CONTAINERS, container_uuid)
    if row is None:
        return None
    made = Container.from_record(row)
    near = await find_nearest(tx, recipe.of_container(made), made.created_at)
    return explain.explain(New("", ()), container_uuid=None, near=near)["nearest"]


def _recipe(made_of: Recipe) -> Record:
    return {
        one.name: getattr(made_of, one.name)
        for one in dataclasses.fields(made_of)
        if one.name not in HIDDEN and one.name in CONTAINERS.by_name
    }


HANDLERS: Final = {
    "container_requests.container_status": get_status,
    "container_requests.why": get_why,
    "container_requests.preview": preview,
    "container_requests.log": get_log,
}
