"""Progress of a request: status, explanation, preview of a new one, and its log."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Final

from msgspec import structs

from lading.api import authorization, expectations, learning, priorities
from lading.api.background import cancellation_scope
from lading.api.cancelled_view import find_view, show_covered
from lading.api.container_access import gateway_logs, log_files, log_streaming
from lading.api.container_access.gateway_client import read_claim
from lading.api.container_assignment import UNSATISFIABLE, check_image, decide
from lading.api.http import ApiCall, ApiResponse
from lading.api.mounts import mount_contents
from lading.api.resources import dispatching, generic
from lading.api.resources.cancelled_by import Canceller, canceller_of
from lading.api.resources.container_requests import (
    check_dependencies,
    find_parent,
    look_up_given,
)
from lading.api.resources.evidence import evidence_about
from lading.api.resources.log_rows import narrow
from lading.api.server.wait_statuses import STATUSES, believed_since
from lading.api.share_summaries import position
from lading.core.containers import recipe, request, request_phases, reuse_explanation, reuse_rights
from lading.core.containers.attempts import learned, retry
from lading.core.containers.container import FINAL, HELD, HIDDEN, LIVE, Container, ContainerState
from lading.core.containers.priority import READY
from lading.core.containers.recipe import Recipe
from lading.core.containers.request import ContainerRequest
from lading.core.containers.reuse import New, Reuse
from lading.core.errors import Invalid, Unavailable, from_status
from lading.core.ids import Infix
from lading.core.protocols.forwarding_claims import ForwardingClaim, Purpose, check_container
from lading.core.records import access
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import (
    Among,
    Column,
    Compare,
    Query,
    SortKey,
)
from lading.core.records.log_rows import LogRowType
from lading.core.records.pending_cancellations import View
from lading.core.records.record_types import LOGS
from lading.core.records.schema import Record, Type
from lading.core.scheduling.wait_reasons import (
    Scene,
    WaitReason,
    delays,
    unassigned,
)
from lading.store import contents, records
from lading.store.cancellations import Cancellation
from lading.store.containers import reusable, waiting
from lading.store.database import Transaction

_NO_CONTAINER: Final = {"uuid": "", "container_state": ""}
# Containers ahead in the queue are counted up to here: an exact number would not help more.
_MOST_AHEAD: Final = 1000
# Below this number of earlier containers with the same image, those of the last changed requests
# are compared too, this many at most.
_FEW: Final = 20
_MOST_NEAR: Final = 60
# Requests whose reasons one call tells.
_MOST_LISTED: Final = 1000
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
    "cost",
    "subrequests_cost",
    "runtime_constraints",
    "withdrawn_at",
    "withdrawn_reason",
)


async def get_status(call: ApiCall) -> ApiResponse:
    """{uuid, container_state, scheduling_status}: the state of a request's container, and the
    reason for which it waits.
    """
    async with call.services.database.reading() as tx:
        row = await authorization.find_readable(
            tx, call.services.clock, call.services.config, REQUESTS, call.uuid, call.caller
        )
        container = await _container(tx, row)
        subject = ContainerRequest.from_record(row)
        pending = await _pending_cancellation(tx, call, subject)
        scene = await _scene(tx, call, subject, container, pending)
    waits = _first(subject, container, scene)
    # Outside the transaction: what follows needs no database.
    sentence = reuse_explanation.status_sentence(container, scene.status, waits)
    known = (
        {"uuid": container.uuid, "container_state": container.state} if container else _NO_CONTAINER
    )
    return ApiResponse(body={**known, "scheduling_status": sentence})


async def get_why(call: ApiCall) -> ApiResponse:
    """Explain the present state of a request."""
    services = call.services
    async with services.database.reading() as tx:
        row = await authorization.find_readable(
            tx, services.clock, services.config, REQUESTS, call.uuid, call.caller
        )
        container = await _container(tx, row)
        decided = await _last(tx, call, LogRowType.RESOLVE)
        decision: Record | None = decided["properties"] if decided else None
        subject = ContainerRequest.from_record(row)
        if decision is not None:
            await narrow(tx, call, decision)
        if decision is not None and decision["decision"] == "new":
            decision |= await _nearest(tx, call, subject, decision["container_uuid"])
        tried = await _tried(tx, subject)
        image = await _image_fault(tx, call, subject, container)
        # The end of the last attempt is shown while the next one is under way.
        earlier = tried[-1] if tried and container is not None and container.state in LIVE else None
        pending = await _pending_cancellation(tx, call, subject)
        scene = dataclasses.replace(
            await _scene(tx, call, subject, container, pending), image=image, earlier=earlier
        )
        ended = await _last(tx, call, LogRowType.END)
        dispatched = await dispatching.trail(tx, tx.dialect, subject)
        evidence = await evidence_about(tx, call, container) if container else None
        expected = await expectations.explain(tx, services, subject, container, scene, call.caller)
        compared = await _compared(tx, call, container)
        canceller = await canceller_of(tx, call, subject, pending)
        waits = _first(subject, container, scene)
        status = reuse_explanation.status_sentence(container, scene.status, waits)
        delayed = [delay.shown() for delay in delays(subject, container, scene)]
        view = await find_view(tx, services, REQUESTS)
        subject, container = await _as_shown(tx, view, subject, container)
    return ApiResponse(
        body={
            **compared,
            "request_uuid": subject.uuid,
            "state": subject.state,
            "priority": subject.priority,
            "outcome": _outcome(subject, container, ended, canceller),
            "cancelled": canceller.shown() if canceller is not None else None,
            "scheduling_status": status,
            "waits": delayed,
            "container": _shown(container) if container else None,
            "attempted_container_uuids": subject.attempted_container_uuids,
            "attempts": [_shown(attempt) for attempt in tried],
            "decided_at": decided["event_at"] if decided else None,
            "decision": decision,
            "not_compared": list(recipe.NOT_COMPARED),
            "evidence": evidence,
            "expected": expected,
            "waited": dispatching.waited(dispatched),
            "dispatch": dispatched,
        }
    )


def _outcome(
    subject: ContainerRequest,
    container: Container | None,
    ended: Record | None,
    canceller: Canceller | None,
) -> str:
    """One sentence about the progress or the end of a request; `ended` is the log row of its end
    without a container.
    """
    if ended is not None:
        return str(ended["summary"])
    outcome = reuse_explanation.request_outcome(subject, container)
    # A command that ended by itself all the same has an exit code to tell.
    if canceller is None or (container is not None and container.state is ContainerState.COMPLETE):
        return outcome
    if subject.state is request_phases.RequestState.FINAL:
        never_ran = container is None or container.started_at is None
        return canceller.sentence if never_ran else f"{canceller.sentence} {outcome}"
    return f"{canceller.sentence} {outcome}" if container is not None else outcome


async def _compared(tx: Transaction, call: ApiCall, container: Container | None) -> Record:
    """`secrets_differ`, if the call names another request: None where the caller may not know."""
    uuid = call.params.get("compared_with")
    if uuid is None:
        return {}
    row = await authorization.find_readable(
        tx, call.services.clock, call.services.config, REQUESTS, str(uuid), call.caller
    )
    other = await _container(tx, row)
    # What runs in a container of the user must not learn of others.
    if container is None or other is None or call.caller.container_uuid is not None:
        return {"secrets_differ": None}
    user = call.caller.user_uuid
    return {"secrets_differ": reuse_rights.secrets_differ(container, other, user_uuid=user)}


async def list_waits(call: ApiCall) -> ApiResponse:
    """The reasons of those of the given requests that wait and do not count yet, or have no
    container yet, as far as the caller can read them: {"items": [{"uuid", "reason", "sentence"}]}.
    """
    uuids = call.params.get("uuids")
    if not isinstance(uuids, list) or len(uuids) > _MOST_LISTED:
        raise Invalid(f"uuids: must be a list of at most {_MOST_LISTED} uuids of requests")
    conditions = (
        Among(Column("uuid", Type.STRING), tuple(map(str, uuids))),
        Compare(Column("state", Type.STRING), "=", request_phases.RequestState.COMMITTED),
    )
    services = call.services
    async with services.database.reading() as tx:
        query = Query(where=(*generic.readable(call, REQUESTS), *conditions), limit=_MOST_LISTED)
        query = await generic.narrowed(tx, REQUESTS, query, call.caller)
        rows = await records.search(tx, tx.dialect, REQUESTS, query)
        subjects = [ContainerRequest.from_record(row) for row in rows]
        reader = authorization.reader_of(call.caller)
        verdicts = await priorities.judge(tx, subjects, now=services.clock.now(), reader=reader)
    reasons = {
        uuid: WaitReason(str(verdict.readiness), verdict.sentence)
        for uuid, verdict in sorted(verdicts.items())
        if not verdict.counts
    }
    reasons |= {
        subject.uuid: unassigned(subject) for subject in subjects if subject.container_uuid is None
    }
    return ApiResponse(
        body={
            "items": [{"uuid": uuid, **reason.shown()} for uuid, reason in sorted(reasons.items())]
        }
    )


def _shown(container: Container) -> Record:
    """A container as `why` shows it, with the class of its failure and the reason."""
    return {
        **{name: getattr(container, name) for name in _SHOWN},
        "failure": retry.failure_class(container),
        "reason": retry.reason_of(container),
    }


async def preview(call: ApiCall) -> ApiResponse:
    """The effect that a create with this body would have: the explanation, and the recipe of the
    container. Nothing is stored.
    """
    services, caller = call.services, call.caller
    attributes = call.attributes(REQUESTS)
    committed = {
        **attributes,
        "state": request_phases.RequestState.COMMITTED,
        "priority": attributes.get("priority") or 0,
    }
    # As a create does, so that the preview compares by the same contents.
    await mount_contents.look_up(services, caller, [attributes.get("mounts")])
    trees = await look_up_given(call, attributes)
    if trees is None:
        raise Unavailable(
            "a git repository that the mounts name is still being fetched; try again in a moment"
        )
    async with services.database.reading() as tx:
        now = services.clock.now()
        change = request.create(
            committed,
            # Of no record: nothing is stored.
            uuid=services.ids.new_uuid(Infix.REQUEST),
            owner_uuid=caller.user_uuid,
            user_uuid=caller.user_uuid,
            now=now,
            policy=services.policy,
            parent=await find_parent(tx, call, attributes),
        )
        await check_dependencies(
            tx, services.clock, services.config, caller, change.request, (), is_new=True
        )
        decision = await decide(tx, services, change.request, caller, trees)
        reused = isinstance(decision.choice, Reuse)
        near = () if reused else await _find_nearest(tx, call, decision.recipe, now)
        choice = decision.choice
        # The container of another user is named once a request has it.
        uuid = choice.container.uuid if isinstance(choice, Reuse) and choice.shown else None
        rule = reuse_rights.rule(decision.recipe)
        explanation = reuse_explanation.explain(
            choice, container_uuid=uuid, near=near, trees=trees, rule=rule
        )
        if decision.advice is not None:
            explanation |= learning.shown(decision.advice)
        await narrow(tx, call, explanation)
    return ApiResponse(
        body={
            **explanation,
            **({} if decision.possible else {"decision": "none", "reason": UNSATISFIABLE}),
            "container_state": choice.container.state if isinstance(choice, Reuse) else None,
            # The user can read the output of a container that has ended, or it would not be used.
            "output": choice.container.output
            if isinstance(choice, Reuse) and (choice.shown or choice.container.state in FINAL)
            else None,
            "recipe": _recipe(learned.advised(decision.recipe, decision.advice)),
            "not_compared": list(recipe.NOT_COMPARED),
        }
    )


async def get_log(call: ApiCall) -> ApiResponse:
    """A file or directory in the log of one of the request's containers; or the log as a stream of
    events.
    """
    if log_streaming.is_wanted(call):
        return log_streaming.stream(call)
    services, fault = call.services, None
    claim = read_claim(services, call.headers, Purpose.LOG)
    async with services.database.reading() as tx:
        row, container = await _logged(tx, call)
        if claim is not None:
            check_container(claim, container.uuid if container is not None else "")
        if container is None or not gateway_logs.is_gateway_source(
            services, container, call.subpath.partition("/")[0]
        ):
            _check_claim(call, claim)
            return await log_files.serve(tx, call, row, container)
    try:
        response = await gateway_logs.serve_gateway_logs(call, container)
        if response is not None:
            return response
    except Unavailable as error:
        fault = error
    _check_claim(call, claim)
    async with services.database.reading() as tx:
        row, container = await _logged(tx, call)
        # The container still runs: its log is nowhere else, or only an earlier part of it.
        held = container is not None and container.state in HELD
        if (
            fault is not None
            and held
            and not services.access.spool.names(call.subpath.partition("/")[0])
        ):
            raise fault
        # The container ended while its gateway was asked, or its supervisor posts its log.
        return await log_files.serve(tx, call, row, container)


def _check_claim(call: ApiCall, claim: ForwardingClaim | None) -> None:
    """Tell a server that forwarded a call that the log is neither at a gateway nor was posted here.
    Raises RequestError.
    """
    if claim is not None and not call.services.access.spool.names(claim.container_uuid):
        raise from_status(
            gateway_logs.MISDIRECTED, "the supervisor of this container posts its log"
        )


async def _logged(tx: Transaction, call: ApiCall) -> tuple[Record, Container | None]:
    """The request whose log is read, and its container."""
    row = await authorization.find_readable(
        tx, call.services.clock, call.services.config, REQUESTS, call.uuid, call.caller
    )
    return row, await _container(tx, row)


async def _container(tx: Transaction, row: Record) -> Container | None:
    if row["container_uuid"] is None:
        return None
    found = await records.get(tx, CONTAINERS, row["container_uuid"])
    return Container.from_record(found) if found else None


async def _scene(
    tx: Transaction,
    call: ApiCall,
    subject: ContainerRequest,
    container: Container | None,
    pending: Cancellation | None,
) -> Scene:
    """The facts from which the reasons to wait are found; `pending` is the cancellation that has
    yet to reach the request.
    """
    services, reader = call.services, authorization.reader_of(call.caller)
    asking = subject.requesting_container_uuid
    parent = await records.get(tx, CONTAINERS, asking) if asking else None
    ahead, share = 0, None
    if (
        container is not None
        and container.state is ContainerState.QUEUED
        and container.priority > 0
    ):
        dialect, created_at = services.database.dialect, container.created_at
        ahead = await waiting.ahead(tx, dialect, container.priority, created_at, most=_MOST_AHEAD)
        share = await position(tx, services.clock, services.config, container, ahead, reader=reader)
    now = services.clock.now()
    return Scene(
        cancelled_since=pending.created_at if pending is not None else None,
        judgement=await priorities.judge_one(tx, subject, now=now, reader=reader)
        if subject.state is request_phases.RequestState.COMMITTED
        else READY,
        parent=Container.from_record(parent) if parent else None,
        reports=tuple(await services.features[STATUSES].about(tx, container.uuid, now))
        if container
        else (),
        silence=_silence(await services.features[STATUSES].last_report(tx), now),
        ahead=ahead,
        most=_MOST_AHEAD,
        share=share,
    )


async def _pending_cancellation(
    tx: Transaction, call: ApiCall, subject: ContainerRequest
) -> Cancellation | None:
    """The cancellation that has yet to reach a request; None without one."""
    if subject.state is not request_phases.RequestState.COMMITTED:
        return None
    itself = Compare(Column("uuid", Type.STRING), "=", subject.uuid)
    pending = await cancellation_scope.left(tx, call.services, itself)
    return pending[0][0] if pending else None


async def _as_shown(
    tx: Transaction, view: View | None, subject: ContainerRequest, container: Container | None
) -> tuple[ContainerRequest, Container | None]:
    """A request and its container as readers are shown them."""
    if view is None:
        return subject, container
    row: Record = {"uuid": subject.uuid, "state": subject.state, "priority": subject.priority}
    await show_covered(tx, view, REQUESTS, [row])
    state = request_phases.RequestState(row["state"])
    shown = structs.replace(subject, state=state, priority=row["priority"])
    if container is None:
        return shown, None
    row = {"uuid": container.uuid, "state": container.state, "priority": container.priority}
    await show_covered(tx, view, CONTAINERS, [row])
    its_state = ContainerState(row["state"])
    return shown, structs.replace(container, state=its_state, priority=row["priority"])


def _silence(last: str | None, now: str) -> str:
    if last is None:
        return "No machine runs containers for this server: none has reported yet."
    return (
        ""
        if last >= believed_since(now)
        else f"No machine runs containers for this server: the last report is of {last}."
    )


def _first(subject: ContainerRequest, container: Container | None, scene: Scene) -> str:
    """The reason for which the request itself keeps its container from running, in one sentence, or
    "".
    """
    if container is None and subject.resolving:
        return next((delay.sentence for delay in delays(subject, None, scene)), "")
    return scene.judgement.sentence


async def _tried(tx: Transaction, subject: ContainerRequest) -> list[Container]:
    """The containers that were tried before, oldest first, but for deleted ones."""
    uuids = subject.attempted_container_uuids
    rows = {row["uuid"]: row for row in await records.among(tx, CONTAINERS, "uuid", uuids)}
    return [Container.from_record(rows[uuid]) for uuid in uuids if uuid in rows]


async def _image_fault(
    tx: Transaction, call: ApiCall, subject: ContainerRequest, container: Container | None
) -> str:
    """The fault of the image of a request that waits or is a draft; "" without a fault."""
    if subject.state is request_phases.RequestState.UNCOMMITTED:
        try:
            await check_image(tx, call.services, subject, call.caller)
        except Invalid as error:
            return f"It cannot be committed: {error.message}."
        return ""
    if container is None or container.state not in (ContainerState.QUEUED, ContainerState.LOCKED):
        return ""
    pdh = container.container_image
    # The readers of the image do not matter: the supervisor loads it with rights of its own.
    if await contents.present(tx, [pdh], call.services.clock.now(), reader=None):
        return ""
    return (
        f"Its image, {pdh}, is in the trash or deleted, so that it cannot be loaded: untrash it, "
        "or cancel the request and submit it with another image."
    )


async def _last(tx: Transaction, call: ApiCall, event_type: LogRowType) -> Record | None:
    where = tuple(
        records.equals(LOGS, name, value)
        for name, value in (("object_uuid", call.uuid), ("event_type", event_type))
    )
    # A request may be resolved anew, for a retry or another draft: the latest decision counts.
    query = Query(
        where=where,
        order=(SortKey("id", descending=True),),
        select=tuple(column.name for column in LOGS.columns),
        limit=1,
    )
    rows = await records.search(tx, tx.dialect, LOGS, query)
    return rows[0] if rows else None


async def _nearest(
    tx: Transaction, call: ApiCall, subject: ContainerRequest, container_uuid: str
) -> Record:
    row = await records.get(tx, CONTAINERS, container_uuid)
    if row is None:
        return {"nearest": None, "near": []}
    made = Container.from_record(row)
    ours = structs.replace(recipe.of_container(made), match_resources=subject.match_resources)
    near = await _find_nearest(tx, call, ours, made.created_at)
    shown = reuse_explanation.explain(New("", ()), container_uuid=None, near=near)
    return {"nearest": shown["nearest"], "near": shown["near"]}


async def _find_nearest(
    tx: Transaction, call: ApiCall, ours: Recipe, created_at: str
) -> tuple[reuse_explanation.Nearest, ...]:
    """Of the earlier containers that the caller can read, those with the most similar recipes."""
    # The scopes of a token hold for the containers that an explanation describes too.
    if not access.covers_list(call.caller, CONTAINERS):
        return ()
    readable = access.readable(CONTAINERS, call.caller, now=call.services.clock.now())
    dialect = call.services.database.dialect
    rows = await reusable.earlier(tx, dialect, created_at, ours.container_image, readable)
    if len(rows) < _FEW:
        rows += await _last_requested(tx, call, created_at, {row["uuid"] for row in rows})
    return reuse_explanation.nearest(ours, [Container.from_record(row) for row in rows])


async def _last_requested(
    tx: Transaction, call: ApiCall, created_at: str, found_uuids: Collection[str]
) -> list[Record]:
    """The earlier containers of the last changed requests that the caller can read, but for those
    that were found already: each may be the container that the user meant.
    """
    query = Query(
        where=access.readable(REQUESTS, call.caller, now=call.services.clock.now()),
        order=(SortKey("modified_at", descending=True),),
        select=("container_uuid",),
        limit=_MOST_NEAR,
    )
    query = await generic.narrowed(tx, REQUESTS, query, call.caller)
    requests = await records.search(tx, tx.dialect, REQUESTS, query)
    uuids = {row["container_uuid"] for row in requests if row["container_uuid"]}
    rows = await records.among(tx, CONTAINERS, "uuid", sorted(uuids.difference(found_uuids)))
    return [row for row in rows if row["created_at"] < created_at]


def _recipe(made_of: Recipe) -> Record:
    return {
        name: getattr(made_of, name)
        for name in made_of.__struct_fields__
        if name not in HIDDEN and name in CONTAINERS.by_name
    }


HANDLERS: Final = {
    "container_requests.container_status": get_status,
    "container_requests.why": get_why,
    "container_requests.preview": preview,
    "container_requests.waits": list_waits,
    "container_requests.log": get_log,
}
