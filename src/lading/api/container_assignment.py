"""Assigns a container to a request: an earlier one with the same recipe, or a new one.

This module reads the facts; `core.containers.recipe` resolves the request, `core.containers.reuse`
chooses and gives the reasons, which are kept as a log row of type "resolve" about the request.
Source: docs/spec/api, section Resolving and reuse.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from lading.api import (
    authorization,
    completion,
    image_lookup,
    learning,
    priorities,
    quotas,
    reuse_candidates,
    run_times,
)
from lading.api.events import audit
from lading.api.logins.authentication import acting_for
from lading.api.metrics import METRICS
from lading.api.mounts.live_mounts import check_live_places
from lading.api.mounts.tree_cache import CONTENTS
from lading.api.server.identifiers import ApiClock
from lading.api.services import ApiServices
from lading.api.unit import Feature, Unit
from lading.config.site import Config
from lading.core import image_names
from lading.core.containers import (
    recipe,
    recipe_resolution,
    request,
    request_phases,
    reuse,
    reuse_explanation,
    reuse_rights,
)
from lading.core.containers.attempts import learned
from lading.core.containers.attempts.learned import Advice
from lading.core.containers.constraints import Learning
from lading.core.containers.container import FINAL, Container, ContainerState, Resolve
from lading.core.containers.mounting import git_trees, mount_resolution, mounts
from lading.core.containers.mounting.git_trees import NO_TREES, GitTrees
from lading.core.containers.priority import Readiness
from lading.core.containers.recipe import Recipe
from lading.core.containers.recipe_resolution import RequestFacts
from lading.core.containers.request import ContainerRequest
from lading.core.containers.reuse import Choice, Reuse
from lading.core.containers.steps import image_names as names_in_steps
from lading.core.errors import Conflict, Invalid, LadingError, Unavailable
from lading.core.ids import Infix
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.filters import check_filters
from lading.core.records.log_rows import LogRowType
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import Record
from lading.core.scheduling import expected_times
from lading.core.values import JsonObject
from lading.store import records
from lading.store import run_times as stored_run_times
from lading.store.containers import waiting
from lading.store.database import Transaction, TransactionInterrupted

_BY_HAND = "the request names this container"
_OF_DRAFT = "the draft had been given this container"
UNSATISFIABLE = (
    "no existing container satisfies the request, and a new one could not meet its filters"
)


@dataclass(frozen=True, slots=True)
class AssignmentChoice:
    """A choice, with the recipe that it was made for. `possible`: a new container could meet the
    filters of the request. `advice`: amounts that the tool of a new container needed before.
    """

    recipe: Recipe
    choice: Choice
    possible: bool = True
    advice: Advice | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the choice is a container that has ended, so that it stays valid."""
        return isinstance(self.choice, Reuse) and self.choice.container.state in FINAL


def defer(change: request.RequestChange, principal: Principal) -> request.RequestChange:
    """The change of a request whose git trees are still being fetched: a Committed request waits
    for its container. Raises Unavailable for a token of limited scopes.
    """
    subject = change.request
    if subject.state is not request_phases.RequestState.COMMITTED:
        return change
    # The server goes on later with the rights of the user, whose token it does not know any more.
    if subject.runtime_token is None and access.is_limited(principal):
        raise Unavailable(
            f"{subject.uuid}: the git repositories of its mounts are still being fetched; "
            "try again: a token of limited scopes cannot leave that to the server"
        )
    return request.then(change, request.defer(subject))


async def look_ahead(
    services: ApiServices,
    change: request.RequestChange,
    principal: Principal,
    trees: GitTrees | None,
) -> AssignmentChoice | None:
    """The decision for a new request, made before its write transaction where several servers share
    the database; else None.

    Such servers wait for each other's write transactions, which should be short. The meaning of a
    request, and a container that has ended, do not change; any other choice is made again in the
    transaction. None also where no time would be saved, or where the error is better raised in the
    transaction.
    """
    subject = change.request
    # Without reuse no container is searched for, so no time would be saved.
    if not services.database.shared or trees is None or not subject.use_existing:
        return None
    if not any(isinstance(effect, Resolve) for effect in change.effects):
        return None
    # Only a look ahead: the commit shows the error.
    with suppress(LadingError):
        async with services.database.reading() as tx:
            return await decide(tx, services, subject, principal, trees)
    return None


async def decide(
    tx: Transaction,
    services: ApiServices,
    subject: ContainerRequest,
    principal: Principal,
    trees: GitTrees = NO_TREES,
    made_of: Recipe | None = None,
) -> AssignmentChoice:
    """The decision for a request now; `made_of` is its recipe if that is known. Raises Invalid."""
    acting = await acting_for(services, subject, principal)
    if made_of is None:
        facts = await _facts(tx, services, subject, acting, trees)
        made_of = recipe_resolution.resolve(subject, facts, policy=services.policy)
    filters = check_filters(subject.filters, CONTAINERS)
    candidates = (
        await reuse_candidates.find(tx, services, made_of, filters, acting)
        if subject.use_existing
        else []
    )
    choice = reuse.choose(
        made_of,
        candidates,
        policy=services.policy,
        use_existing=subject.use_existing,
        only_reproduced=subject.only_reproduced,
        waiting=await reuse_candidates.waiting(tx, subject.requesting_container_uuid)
        if subject.requesting_container_uuid
        else set(),
        is_admin=acting.is_admin,
    )
    # Filters on a container that was reused are met already; only a new one may miss them.
    if isinstance(choice, Reuse):
        return AssignmentChoice(made_of, choice)
    advice = (
        await learning.advise(tx, services.policy, made_of)
        if services.policy.learning is not Learning.OFF
        else None
    )
    if not filters:
        return AssignmentChoice(made_of, choice, True, advice)
    own = learned.advised(made_of, advice)
    fresh = recipe.new_container(own, uuid="", now=services.clock.now()).to_record()
    possible = reuse.can_meet(filters, {**fresh, "owner_uuid": services.ids.system_user})
    return AssignmentChoice(made_of, choice, possible, advice)


async def check_image(
    tx: Transaction, services: ApiServices, subject: ContainerRequest, principal: Principal
) -> None:
    """Check that the image of a request can be found. Raises Invalid."""
    acting, term = (
        await acting_for(services, subject, principal),
        image_names.parse_reference(subject.container_image or ""),
    )
    await image_lookup.find(
        tx,
        services,
        term,
        acting,
        await authorization.present(tx, services.clock, [term.pdh] if term.pdh else [], acting),
    )


async def is_over(unit: Unit, change: request.RequestChange) -> bool:
    """Whether a request that is being committed ends at once, because a request that it depends on
    did not end well.

    Stores the dependencies that it waits for. Raises Invalid when the container that made the
    request has ended.
    """
    subject = change.request
    if subject.state is not request_phases.RequestState.COMMITTED:
        return False
    if subject.requesting_container_uuid is not None:
        parent = await unit.container(subject.requesting_container_uuid)
        if parent is None or parent["state"] in FINAL:
            raise Invalid(
                f"Requesting container uuid {subject.requesting_container_uuid} has ended; "
                "its requests end too"
            )
    if not subject.depends_on:
        return False
    judgement = await priorities.judge_one(
        unit.tx, subject, now=unit.now, reader=unit.user_uuid, new=True
    )
    if judgement.readiness is Readiness.BROKEN:
        about = {"uuid": subject.uuid, "owner_uuid": subject.owner_uuid}
        reason = {"reason": judgement.sentence}
        await audit.note(unit.tx, unit.services, about, LogRowType.END, judgement.sentence, reason)
        return True
    # A dependent request counts only once the others have ended: it is noted, so that their end
    # finds it.
    if judgement.readiness in (Readiness.DEPENDENT, Readiness.EXPIRED):
        await waiting.watch(unit.tx, subject.uuid, subject.depends_on)
    return False


async def waits_for_output(unit: Unit, subject: ContainerRequest, principal: Principal) -> bool:
    """Whether the request mounts the output of a request that has not ended, so that its container
    can only be found later, by the server.

    Raises Invalid for a draft, and for a token of limited scopes.
    """
    sources = [output.request_uuid for output in mount_resolution.outputs(subject.mounts)]
    if not sources:
        return False
    rows = await records.among(unit.tx, REQUESTS, "uuid", sources)
    open_ones = [row["uuid"] for row in rows if row["state"] != request_phases.RequestState.FINAL]
    if not open_ones:
        return False
    fault = f"Mounts: the request {open_ones[0]}, whose output is mounted, has not ended"
    if subject.state is not request_phases.RequestState.COMMITTED:
        raise Invalid(fault)
    # The server goes on later with the rights of the user, whose token it does not know any more.
    if subject.runtime_token is None and access.is_limited(principal):
        raise Invalid(f"{fault}; a token of limited scopes cannot leave the rest to the server")
    return True


async def resolve(
    unit: Unit,
    change: request.RequestChange,
    principal: Principal,
    trees: GitTrees,
    ahead: AssignmentChoice | None = None,
) -> request.RequestChange:
    """The change with the container that `core.containers.reuse` chooses, or with a new one.
    `ahead` is a decision that was made before this transaction. Raises Invalid.
    """
    services, subject = unit.services, change.request
    # A container that has ended does not change: a decision about it needs no second look in the
    # transaction. The recipe of any other decision is used again.
    if ahead is not None and ahead.is_settled:
        decision = ahead
    else:
        decision = await decide(
            unit.tx, services, subject, principal, trees, ahead.recipe if ahead else None
        )
    if not decision.possible:
        raise Invalid(f"Filters: {UNSATISFIABLE}")
    choice = decision.choice
    uuid = (
        choice.container.uuid
        if isinstance(choice, Reuse)
        else services.ids.new_uuid(Infix.CONTAINER)
    )
    rule = reuse_rights.rule(decision.recipe)
    explanation = reuse_explanation.explain(choice, container_uuid=uuid, trees=trees, rule=rule)
    if isinstance(choice, Reuse):
        change = await _attach(unit, change, choice.container, decision.recipe)
        # Facts read before the transaction may be outdated: the call is tried again with a fresh
        # decision.
        if decision is ahead and not (change.request.log_uuid and change.request.output_uuid):
            raise TransactionInterrupted(
                f"{uuid}: its log or output was deleted meanwhile; try again"
            )
    else:
        change = await _make_container(unit, change, decision, uuid)
    if decision.advice is not None:
        explanation |= learning.shown(decision.advice)
    await _remember(unit, change.request, explanation, choice)
    return change


async def _make_container(
    unit: Unit, change: request.RequestChange, decision: AssignmentChoice, uuid: str
) -> request.RequestChange:
    """The change with a new container, which is stored."""
    made_of = decision.recipe
    if decision.advice is not None:
        made_of = learned.advised(made_of, decision.advice)
    tool = await run_times.tool_of(unit.tx, made_of)
    has_quotas = await unit.uses(Feature.QUOTAS)
    seconds = await stored_run_times.find(unit.tx, tool)
    change = request.then(change, request.assign(change.request, uuid))
    container = recipe.new_container(
        expected_times.with_run_time(made_of, seconds), uuid=uuid, now=unit.now
    )
    if has_quotas:
        await quotas.check_new(unit, change, container)
    container = await priorities.prioritized(unit, container, change.request)
    await unit.add_container(container.to_record())
    # They lose this request, and with it perhaps their priority.
    unit.stale(earlier for earlier in change.request.attempted_container_uuids if earlier)
    return change


async def _attach(
    unit: Unit, change: request.RequestChange, container: Container, made_of: Recipe
) -> request.RequestChange:
    """The change with a container that exists; the request is Final if the container has ended."""
    change = request.then(change, request.assign(change.request, container.uuid))
    if container.state in FINAL and change.request.state is request_phases.RequestState.COMMITTED:
        end = await completion.make_final(unit, change.request, container, reused=True)
        return request.then(change, end)
    if await unit.uses(Feature.QUOTAS):
        await quotas.check_commit(unit, change)
    sizes = recipe.joined(made_of, container)
    row = await unit.container(container.uuid) if sizes else None
    if row is not None:
        # Raises Conflict when the container does not wait any more.
        await unit.write_container(row, sizes, expected={"state": container.state})
    unit.stale([container.uuid])
    return change


async def confirm(
    unit: Unit, change: request.RequestChange, principal: Principal, uuid: str, trees: GitTrees
) -> request.RequestChange:
    """The change with the draft's container if that still satisfies the request, else with
    another.
    """
    try:
        return await adopt(unit, change, principal, uuid, trees, _OF_DRAFT)
    except Invalid:
        released = request.then(change, request.release(change.request))
        unit.stale([uuid])
        return await resolve(unit, released, principal, trees)


async def adopt(
    unit: Unit,
    change: request.RequestChange,
    principal: Principal,
    uuid: str,
    trees: GitTrees,
    reason: str = _BY_HAND,
) -> request.RequestChange:
    """The change with the container that the client named. Raises Invalid unless the caller can
    read the container and it satisfies the request.
    """
    services, subject = unit.services, change.request
    row = await unit.container(uuid)
    if row is None or not await _may_read(unit, principal, uuid):
        raise Invalid(f"container_uuid: '{uuid}' not found")
    container = Container.from_record(row)
    acting = await acting_for(services, subject, principal)
    facts = await _facts(unit.tx, services, subject, acting, trees)
    made_of = recipe_resolution.resolve(subject, facts, policy=services.policy)
    # First: a difference in secrets must not be named for a container of another user.
    await reuse_candidates.check_rights(unit.tx, services.clock, made_of, uuid, acting)
    recipe.check_adoption(made_of, container, policy=services.policy)
    change = await _attach(unit, change, container, made_of)
    choice = Reuse(container, reason, ())
    rule = reuse_rights.rule(made_of)
    chosen = reuse_explanation.explain(choice, container_uuid=uuid, trees=trees, rule=rule)
    await _remember(unit, change.request, chosen, choice)
    return change


async def _may_read(unit: Unit, principal: Principal, uuid: str) -> bool:
    return await authorization.can_refer(
        unit.tx, unit.services.clock, unit.services.config, uuid, principal
    )


async def _remember(
    unit: Unit, subject: ContainerRequest, explanation: Record, choice: Choice
) -> None:
    count = partial(unit.services.features[METRICS].note_decision, choice, subject)
    about = {"uuid": subject.uuid, "owner_uuid": subject.owner_uuid}
    summary = f"{explanation['decision']} {explanation['container_uuid']}: {explanation['reason']}"
    await audit.note(
        unit.tx, unit.services, about, LogRowType.RESOLVE, summary, explanation, at=unit.now
    )
    unit.tx.after_commit(count)


async def _facts(
    tx: Transaction,
    services: ApiServices,
    subject: ContainerRequest,
    acting: Principal,
    trees: GitTrees,
) -> RequestFacts:
    # Later changes of the mounts by another call leave trees that belong to the earlier mounts.
    is_limited = access.is_limited(acting)
    has_live = mounts.has_kind(subject.mounts, mounts.MountKind.LIVE)
    has_trees = mounts.has_kind(subject.mounts, mounts.MountKind.GIT_TREE)
    named_trees = git_trees.references(subject.mounts) if has_trees else ()
    if {tree.target for tree in named_trees} != trees.keys():
        raise Conflict(f"{subject.uuid}: its mounts were changed at the same time; read it again")
    named, term = (
        mount_resolution.references(subject.mounts),
        image_names.parse_reference(subject.container_image or ""),
    )
    # One query for the image and all inputs, in place of one for each.
    hashes = [*_hashes_of(named), *([term.pdh] if term.pdh else ())]
    present = await authorization.present(tx, services.clock, hashes, acting) if hashes else set()
    image = await image_lookup.find(tx, services, term, acting, present)
    steps = await _step_images(tx, services, subject, acting) if subject.steps else {}
    resolved = {
        reference.name: await _hash(tx, services.clock, services.config, reference, acting, present)
        for reference in named
    }
    if is_limited:
        await _check_scopes(tx, services.clock, acting, image, term.uuid or "", named, resolved)
    if outputs := mount_resolution.outputs(subject.mounts):
        resolved |= await _outputs(tx, services.clock, outputs, acting)
    shown = mount_resolution.shown(subject.mounts, resolved)
    if has_live:
        live = mounts.live_places(subject.mounts)
        await check_live_places(tx, services.config, live, acting)
    return RequestFacts(
        trees=trees,
        image_pdh=image,
        step_images=steps,
        hashes=resolved,
        user_uuid=acting.user_uuid,
        scopes=acting.scopes if is_limited else access.ALL_SCOPES,
        contents=_contents_shown(services, shown) if shown else {},
    )


async def _check_scopes(
    tx: Transaction,
    clock: ApiClock,
    acting: Principal,
    image: str,
    image_uuid: str,
    named: Sequence[mount_resolution.CollectionReference],
    resolved: Mapping[str, str | None],
) -> None:
    """Raise Forbidden if a token of limited scopes would read records through the container that
    it cannot read itself.
    """
    check = partial(authorization.check_content_scope, tx, clock, acting)
    await check(image, "container_image", uuid=image_uuid)
    for reference in named:
        if (pdh := resolved[reference.name]) is not None:
            await check(
                pdh, f"mounts [{reference.target}]", uuid="" if reference.is_pdh else reference.name
            )


def _contents_shown(
    services: ApiServices, shown: Mapping[str, tuple[str, str]]
) -> dict[str, JsonObject]:
    """The contents that mounts show, by target, as far as they were read already."""
    known = services.features[CONTENTS].entries
    return {
        target: content
        for target, source in shown.items()
        if (content := known.get(source)) is not None
    }


async def _step_images(
    tx: Transaction, services: ApiServices, subject: ContainerRequest, acting: Principal
) -> dict[str, str]:
    """The portable data hashes of the images of steps, by name. Raises Invalid."""
    images: dict[str, str] = {}
    for number, name in enumerate(names_in_steps(subject.steps)):
        term = image_names.parse_reference(name)
        present = await authorization.present(
            tx, services.clock, [term.pdh] if term.pdh else [], acting
        )
        images[name] = await image_lookup.find(tx, services, term, acting, present)
        if access.is_limited(acting):
            at = f"steps [{number}][container_image]"
            await authorization.check_content_scope(
                tx, services.clock, acting, images[name], at, uuid=term.uuid or ""
            )
    return images


async def outputs_of(tx: Transaction, requests: Iterable[str]) -> dict[str, str]:
    """The outputs of the requests that ended well, as portable data hashes by uuid."""
    rows = await records.among(tx, REQUESTS, "uuid", requests)
    made_by = {
        row["uuid"]: row["container_uuid"]
        for row in rows
        if row["state"] == request_phases.RequestState.FINAL and row["container_uuid"]
    }
    ended = {
        row["uuid"]: row["output"]
        for row in await records.among(tx, CONTAINERS, "uuid", dict.fromkeys(made_by.values()))
        if row["state"] == ContainerState.COMPLETE and row["exit_code"] == 0 and row["output"]
    }
    return {uuid: ended[container] for uuid, container in made_by.items() if container in ended}


async def _outputs(
    tx: Transaction,
    clock: ApiClock,
    named: Sequence[mount_resolution.OutputReference],
    acting: Principal,
) -> dict[str, str | None]:
    """The outputs of requests that mounts show: portable data hashes by the request's uuid, None
    for one that was not made or that the principal cannot read.
    """
    hashes = await outputs_of(tx, dict.fromkeys(output.request_uuid for output in named))
    present = await authorization.present(tx, clock, hashes.values(), acting)
    if access.is_limited(acting):
        for output in named:
            pdh = hashes.get(output.request_uuid)
            if pdh is not None:
                await authorization.check_content_scope(
                    tx, clock, acting, pdh, f"mounts [{output.target}]"
                )
    return {
        output.request_uuid: pdh if (pdh := hashes.get(output.request_uuid)) in present else None
        for output in named
    }


def _hashes_of(references: Iterable[mount_resolution.CollectionReference]) -> list[str]:
    """The portable data hashes among references, without hints."""
    return [_bare(reference.name) for reference in references if reference.is_pdh]


def _bare(pdh: str) -> str:
    """A portable data hash without hints."""
    return "+".join(pdh.split("+")[:2])


async def _hash(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    reference: mount_resolution.CollectionReference,
    acting: Principal,
    present: Collection[str],
) -> str | None:
    if reference.is_pdh:
        return _bare(reference.name) if _bare(reference.name) in present else None
    found = await records.get(tx, COLLECTIONS, reference.name)
    if found is None or not await image_lookup.can_use(tx, clock, config, found, acting):
        return None
    return str(found["portable_data_hash"])
