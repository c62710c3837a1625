"""Reuse: whether an existing container can answer a request, with reasons.

Order of preference (docs/spec/containers, section Reuse): finished with exit code 0, log and output
still stored and not withdrawn (the earliest finished); running without an error and wanted (most
progress, then earliest started); Locked, then Queued (highest priority, then oldest). Cancelled and
failed containers are never used. A request does not join a waiting
container that may get a preemptible machine which the request does not accept (`spot`), and none
joins a container that waits for its result. Cache sizes may differ
within the variations in `constraints`; other sizes within the ranges of the request. Whether a
container of another user may be used is decided in `reuse_rights`. A request with `strict_output`
uses no result that lacks an entry; one in progress is joined by requests that are equally strict.

A container must also satisfy the request's `filters`. A request may accept existing results only,
for instance with ["state", "=", "Complete"], ["exit_code", "=", 0] or ["created_at", "<", ...];
then no new container is made. `can_meet` decides this: a new container is Queued, without exit
code, times and output, so each attribute with a single value is compared as it will be stored.
Conditions on objects, arrays and text patterns count as satisfied, and so do those on the priority,
which depends on the requests of the container.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from lading.core.containers.attempts import spot
from lading.core.containers.constraint_ranges import GROWING
from lading.core.containers.constraints import Policy
from lading.core.containers.container import Container, ContainerState
from lading.core.containers.evidence import Evidence, evidence_for
from lading.core.containers.mounting.mounts import live_places
from lading.core.containers.recipe import (
    Recipe,
    cache_difference,
    strictness_fault,
    toward,
)
from lading.core.containers.reuse_rights import is_own, refusal
from lading.core.errors import Invalid
from lading.core.records.expressions import (
    Among,
    Column,
    Compare,
    CompareColumns,
    Constant,
    Either,
    Expression,
    IsKind,
)
from lading.core.records.schema import Type
from lading.core.values import Json, same

_PLAIN = frozenset({Type.STRING, Type.TIME, Type.INTEGER, Type.FLOAT, Type.BOOLEAN})
# Attributes that change before the container runs.
# A condition on one of them is left open: it may hold when the container runs.
_OPEN = frozenset({"priority"})
_WHY: Mapping[ContainerState, str] = MappingProxyType(
    {
        ContainerState.COMPLETE: (
            "the same was computed before, and its output and log are still there"
        ),
        ContainerState.RUNNING: "the same is being computed now",
        ContainerState.LOCKED: "the same is about to be computed",
        ContainerState.QUEUED: "the same is waiting to be computed",
    }
)
WITHDRAWN = "its result was withdrawn"
_WITHDRAWN_OWN = "the user of this request has withdrawn its result for their own requests"
REPORTS_ERROR = "it is running but reports an error"
# The order of the table is that of preference: a result now before one that is being computed.
_RANK = tuple(_WHY)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A container with one of the recipe's `keys`, and whether collections outside the trash have
    its log and its output; of another user's container, such that the user of the request can read.

    `filtered`: it does not satisfy the request's `filters`. `shown`: the user of the request can
    read its record, or it ran for that user. `inputs_readable`: that user can read its inputs.
    `withdrawn_for_user`: that user has withdrawn its result for their own requests.
    """

    container: Container
    log_present: bool = False
    output_present: bool = False
    filtered: bool = False
    shown: bool = True
    inputs_readable: bool = True
    withdrawn_for_user: bool = False


@dataclass(frozen=True, slots=True)
class CandidateVerdict:
    """Whether one candidate can be used, with the reason."""

    container_uuid: str
    state: ContainerState
    usable: bool
    reason: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Reuse:
    """Use this container. `shown`: the user could read its record before."""

    container: Container
    reason: str
    verdicts: tuple[CandidateVerdict, ...]
    shown: bool = True


@dataclass(frozen=True, slots=True)
class New:
    """Make a new container."""

    reason: str
    verdicts: tuple[CandidateVerdict, ...]


Choice: TypeAlias = Reuse | New


def choose(
    recipe: Recipe,
    candidates: Iterable[Candidate],
    *,
    policy: Policy,
    use_existing: bool = True,
    only_reproduced: bool = False,
    waiting: Collection[str] = (),
    is_admin: bool = False,
) -> Choice:
    """The container to use, or the decision to make one, with a reason for each candidate that the
    user of the request can read.

    Pass the containers found by `recipe.keys(...)`. With `use_existing` false none is considered;
    with `only_reproduced` only results that other candidates have reproduced, and none has not.
    `waiting`: the containers that wait for the result: the requesting container and its ancestors.
    `is_admin`: whether the request acts for an administrator.
    """
    if not use_existing:
        return New("the request asks for a new container (use_existing is false)", ())
    if live := live_places(recipe.mounts):
        return New(f"its mount {live[0].target} is live: what it reads there may have changed", ())
    # Each candidate gets its verdict, also behind the best one: users see why it was not chosen.
    judged = [
        (candidate, _judge(recipe, candidate, policy=policy, waiting=waiting, is_admin=is_admin))
        for candidate in candidates
    ]
    # Of a container that the user can neither read nor use, nothing is counted or told.
    judged = [
        (candidate, verdict) for candidate, verdict in judged if candidate.shown or verdict.usable
    ]
    return _best_of(_reproduced(judged) if only_reproduced else judged)


def _best_of(judged: Sequence[tuple[Candidate, CandidateVerdict]]) -> Choice:
    """The choice among candidates with their verdicts."""
    usable = [candidate for candidate, verdict in judged if verdict.usable]
    # The choice does not depend on the order of the candidates: `_preference` ends with the uuid.
    best = min(usable, key=lambda candidate: _preference(candidate.container)) if usable else None
    verdicts = tuple(
        verdict for candidate, verdict in judged if candidate.shown or candidate is best
    )
    if best is not None:
        return Reuse(best.container, _WHY[best.container.state], verdicts, best.shown)
    if not verdicts:
        return New("the same was never asked for before", ())
    return New("the same was asked for before, but none of those containers can be used", verdicts)


def check_rights(recipe: Recipe, candidate: Candidate, *, is_admin: bool) -> None:
    """Check that a container that was chosen by hand may stand for the request of this user. Raises
    Invalid.
    """
    container = candidate.container
    fault = refusal(recipe, container, inputs_readable=candidate.inputs_readable, is_admin=is_admin)
    is_present = candidate.log_present and candidate.output_present
    if (
        fault is None
        and container.state is ContainerState.COMPLETE
        and not (is_present or is_own(recipe, container) or is_admin)
    ):
        fault = "its log or its output cannot be read by the user of this request"
    if fault is None and candidate.withdrawn_for_user:
        fault = _WITHDRAWN_OWN
    if fault is not None:
        raise Invalid(f"Container uuid {container.uuid} cannot be used: {fault}")


def _judge(
    recipe: Recipe,
    candidate: Candidate,
    *,
    policy: Policy,
    waiting: Collection[str],
    is_admin: bool,
) -> CandidateVerdict:
    container = candidate.container
    mine = is_admin or is_own(recipe, container)
    fault = _fault_of_state(recipe, candidate, policy=policy, mine=mine)
    size = _other_size(recipe, container) or cache_difference(recipe, container, policy=policy)
    rights = refusal(
        recipe, container, inputs_readable=candidate.inputs_readable, is_admin=is_admin
    )
    # These faults replace that of the state: they hold in every state.
    further = (
        "it waits for the result of this request itself" if container.uuid in waiting else None,
        "it does not meet the filters of the request" if candidate.filtered else None,
        f"it has another {size}" if size is not None else None,
        None if fault is not None else strictness_fault(recipe, container),
        rights,
    )
    fault = next((reason for reason in further if reason is not None), fault)
    return CandidateVerdict(
        container.uuid,
        container.state,
        fault is None,
        fault or _WHY[container.state],
        container.exit_code,
    )


def _reproduced(
    judged: Sequence[tuple[Candidate, CandidateVerdict]],
) -> list[tuple[Candidate, CandidateVerdict]]:
    """The candidates with their verdicts for a request that asks for evidence."""
    # Evidence is in the other containers with the same recipe, usable or not.
    others = [candidate.container for candidate, _ in judged if not candidate.withdrawn_for_user]
    return [
        (candidate, _with_evidence(verdict, evidence_for(candidate.container, others)))
        for candidate, verdict in judged
    ]


def _with_evidence(verdict: CandidateVerdict, evidence: Evidence) -> CandidateVerdict:
    """The verdict for a request that asks for evidence."""
    if not verdict.usable or evidence.is_reproduced:
        return verdict
    if verdict.state is not ContainerState.COMPLETE or not evidence.of:
        fault = "it was not run again, so that nothing shows that it can be reproduced"
    else:
        fault = f"it was reproduced {evidence.equal} of {evidence.of} times"
    return replace(verdict, usable=False, reason=fault)


def _other_size(recipe: Recipe, container: Container) -> str | None:
    ours, theirs = toward(recipe, container).runtime_constraints, container.runtime_constraints
    return next((name for name in GROWING if not same(ours.get(name), theirs.get(name))), None)


def _fault_of_state(
    recipe: Recipe, candidate: Candidate, *, policy: Policy, mine: bool
) -> str | None:
    container = candidate.container
    if container.state is ContainerState.CANCELLED:
        return "it was cancelled and has no result"
    if container.interactive_session_started and not policy.reuse_after_shell:
        return "a user was inside with a shell, so its result may not be that of its command alone"
    if container.state is ContainerState.COMPLETE:
        return _fault_of_result(candidate, mine=mine)
    if container.state is ContainerState.RUNNING:
        return _fault_of_run(container)
    # Only of one that waits: where a container runs already does not matter (`_fault_of_run`).
    return spot.join_fault(recipe.scheduling_parameters, container.scheduling_parameters)


def _fault_of_result(candidate: Candidate, *, mine: bool) -> str | None:
    # Whether anybody else still has the log or the output of another user is not told.
    gone = "was deleted" if mine else "was deleted or cannot be read by the user of this request"
    if candidate.container.withdrawn_at is not None:
        return WITHDRAWN
    if candidate.withdrawn_for_user:
        return _WITHDRAWN_OWN
    if candidate.container.exit_code != 0:
        return f"it ended with exit code {candidate.container.exit_code}"
    if not candidate.log_present:
        return f"its log {gone}"
    if not candidate.output_present:
        return f"its output {gone}"
    return None


def _fault_of_run(container: Container) -> str | None:
    if "error" in container.runtime_status:
        return REPORTS_ERROR
    if container.priority <= 0:
        return "it is running but is being cancelled (priority 0)"
    return None


def _preference(container: Container) -> tuple[int, float, int, str, str]:
    """Sort key, the preferred container first; unreported progress counts as most, as in
    PostgreSQL's order of nulls.
    """
    rank = _RANK.index(container.state)
    if container.state is ContainerState.COMPLETE:
        return rank, 0.0, 0, container.finished_at or "", container.uuid
    if container.state is ContainerState.RUNNING:
        # 2.0 is above any share of the whole.
        progress = 2.0 if container.progress is None else container.progress
        return rank, -progress, 0, container.started_at or "", container.uuid
    return rank, 0.0, -container.priority, container.created_at, container.uuid


def can_meet(filters: Sequence[Expression], container: Mapping[str, Json]) -> bool:
    """Whether a container with these attributes satisfies all compared conditions."""
    # A condition that cannot be judged yet counts as possible: a refusal here would end a request
    # whose filters can still be met.
    return all(_possible(condition, container) for condition in filters)


def _possible(condition: Expression, container: Mapping[str, Json]) -> bool:
    match condition:
        case Constant(value):
            return value
        case Either(parts):
            return any(_possible(alternative, container) for alternative in parts)
        case Compare(Column() as column, operator, value) if _is_known(column, container):
            return _compared(container[column.name], operator, value)
        case Among(Column() as column, values, null, negated) if _is_known(column, container):
            actual = container[column.name]
            return (actual in values or (actual is None and null)) is not negated
        case CompareColumns(left, operator, right) if _is_known(left, container) and _is_known(
            right, container
        ):
            return _related(container[left.name], operator, container[right.name])
        case IsKind(name) if name in container:
            return container[name] is not None
    return True


def _is_known(column: Column, container: Mapping[str, Json]) -> bool:
    return column.type in _PLAIN and column.name in container and column.name not in _OPEN


def _related(left: Json, operator: str, right: Json) -> bool:
    """Comparison of two attributes: null is unequal to everything, also to null."""
    # As SQL would say unknown, but `!=` holds when exactly one is null (`CompareColumns`).
    if left is None or right is None:
        return operator == "!=" and left is not right
    return _compared(left, operator, right)


def _compared(actual: Json, operator: str, value: Json) -> bool:
    if operator in ("=", "!="):
        return (actual == value) is (operator == "=")
    # Values of different types are in no order, so no comparison of their order holds.
    before, same = _ordered(actual, value), actual == value
    if before is None:
        return False
    return {"<": before, "<=": before or same, ">": not before and not same, ">=": not before}[
        operator
    ]


def _ordered(left: Json, right: Json) -> bool | None:
    """Whether `left` is less than `right`; None when they cannot be ordered."""
    if isinstance(left, str) and isinstance(right, str):
        return left < right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left < right
    return None
