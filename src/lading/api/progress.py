"""How a request is doing, and why: status, explanation, preview; and what dispatchers say about waiting containers."""

from __future__ import annotations

import dataclasses
from typing import Final

from lading.api import guard, saved
from lading.api.exchange import Answer, Call
from lading.api.ledger import Ledger
from lading.api.requests import find_parent, look_up_given
from lading.api.resolving import UNSATISFIABLE, decide, find_nearest
from lading.core import access, explain, recipe, request
from lading.core.container import HIDDEN, Container, State
from lading.core.delays import Scene, delays
from lading.core.errors import Invalid, Unavailable
from lading.core.ids import Infix
from lading.core.recipe import Recipe
from lading.core.records import CONTAINERS, LOGS, REQUESTS
from lading.core.request import ContainerRequest
from lading.core.reuse import New, Reuse
from lading.core.schema import Record
from lading.core.waiting import READY
from lading.store import records, waiting
from lading.store.database import Transaction

_NO_CONTAINER: Final = {"uuid": "", "container_state": ""}
_MOST_AHEAD: Final = 1000
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
        row = await guard.find_readable(tx, call.services, REQUESTS, call.uuid, call.caller)
        container = await _container(tx, row)
        subject = ContainerRequest.from_record(row)
        scene = await _scene(tx, call, subject, container)
    waits = _first(subject, container, scene)
    sentence = explain.status_sentence(container, scene.dispatcher, waits)
    known = {"uuid": container.uuid, "container_state": container.state} if container else _NO_CONTAINER
    return Answer(body={**known, "scheduling_status": sentence})


async def get_why(call: Call) -> Answer:
    """Why a request is where it is.

    {"request_uuid", "state", "priority", "outcome": one sentence, "scheduling_status": one sentence,
    "waits": [{"reason", "sentence"}] see `core.delays`,
    "container": null | {uuid, state, exit_code, runtime_status, ...}, "attempted_container_uuids",
    "decided_at": null | time, "decision": null | {see `core.explain.explain`; "nearest" is filled in for "new"}}
    """
    services = call.services
    async with services.database.reading() as tx:
        row = await guard.find_readable(tx, services, REQUESTS, call.uuid, call.caller)
        container = await _container(tx, row)
        decided = await _last(tx, call, "resolve")
        decision: Record | None = decided["properties"] if decided else None
        if decision is not None and decision["decision"] == "new":
            decision = {**decision, **await _nearest(tx, decision["container_uuid"])}
        subject = ContainerRequest.from_record(row)
        scene = await _scene(tx, call, subject, container)
        ended = await _last(tx, call, "end")
    waits = _first(subject, container, scene)
    return Answer(
        body={
            "request_uuid": subject.uuid,
            "state": subject.state,
            "priority": subject.priority,
            "outcome": ended["summary"] if ended else explain.outcome(subject, container),
            "scheduling_status": explain.status_sentence(container, scene.dispatcher, waits),
            "waits": [one.shown() for one in delays(subject, container, scene)],
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
    trees = await look_up_given(call, given)
    if trees is None:
        raise Unavailable("a git repository that the mounts name is still being fetched; try again in a moment")
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
        decision = await decide(tx, services, change.request, caller, trees)
        reused = isinstance(decision.choice, Reuse)
        near = () if reused else await find_nearest(tx, decision.recipe, now)
    uuid = decision.choice.container.uuid if isinstance(decision.choice, Reuse) else None
    return Answer(
        body={
            **explain.explain(decision.choice, container_uuid=uuid, near=near, trees=trees),
            **({} if decision.possible else {"decision": "none", "reason": UNSATISFIABLE}),
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
        row = await guard.find_readable(tx, call.services, REQUESTS, call.uuid, call.caller)
        container = await _container(tx, row)
        return await saved.serve(tx, call, row, container)


async def _container(tx: Transaction, row: Record) -> Container | None:
    if row["container_uuid"] is None:
        return None
    found = await records.get(tx, CONTAINERS, row["container_uuid"])
    return Container.from_record(found) if found else None


async def _scene(tx: Transaction, call: Call, subject: ContainerRequest, container: Container | None) -> Scene:
    """What there is to know about why a request waits."""
    services = call.services
    ledger = Ledger(tx, services, user_uuid=call.caller.user_uuid)
    asking = subject.requesting_container_uuid
    parent = await records.get(tx, CONTAINERS, asking) if asking else None
    ahead = 0
    if container is not None and container.state is State.QUEUED and container.priority > 0:
        ahead = await waiting.ahead(tx, container.priority, container.created_at, most=_MOST_AHEAD)
    return Scene(
        judgement=await ledger.judge(subject) if subject.state is request.State.COMMITTED else READY,
        parent=Container.from_record(parent) if parent else None,
        dispatcher=services.statuses.get(container.uuid) if container else None,
        ahead=ahead,
        most=_MOST_AHEAD,
    )


def _first(subject: ContainerRequest, container: Container | None, scene: Scene) -> str:
    """Why the request itself does not let its container run, in one sentence."""
    if container is None:
        return next((one.sentence for one in delays(subject, None, scene)), "") if subject.resolving else ""
    return scene.judgement.sentence


async def _last(tx: Transaction, call: Call, event_type: str) -> Record | None:
    rows = await records.matching(tx, LOGS, object_uuid=call.uuid, event_type=event_type)
    return max(rows, key=lambda row: int(row["id"])) if rows else None


async def _nearest(tx: Transaction, container_uuid: str) -> Record:
    row = await records.get(tx, CONTAINERS, container_uuid)
    if row is None:
        return {"nearest": None, "near": []}
    made = Container.from_record(row)
    near = await find_nearest(tx, recipe.of_container(made), made.created_at)
    shown = explain.explain(New("", ()), container_uuid=None, near=near)
    return {"nearest": shown["nearest"], "near": shown["near"]}


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
