"""Retry of a container that ended without a result (docs/spec/containers, section Retry).

- A Cancelled container is retried for every request that is still wanted, below its
  container_count_max, not made by a stopped container, and within the limit of the failure class in
  `runtime_status.failure`, compared with the number of earlier attempts that failed in the same
  way.
- A command that ran and exited gave a result: it is retried only if a rule for its class says so.
- The rules are those of the request, of its projects and of the configuration (`retry_rules`).
- After `oom` and `disk` a rule may give the retry more ram or disk space. At the bound there is no
  further retry. Of a request with a range of ram the range is the bound; a request with
  `match_resources` never gets other amounts than it asked for.
- One new container serves all requests; its scheduling parameters are the most permissive of
  theirs, its amounts the largest. After `spot_attempts` preempted attempts it is not preemptible,
  whatever happened since.
- It runs for the user of the container that ended, or, if none of the requests is that user's, for
  one of theirs (`reuse_rights.heir`).
- After a delay the request counts again (`retry_after`, `priority.judge_readiness`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import msgspec
from msgspec import structs

from lading.core.containers import constraint_ranges, constraints, recipe
from lading.core.containers import request as requests_
from lading.core.containers.attempts import spot
from lading.core.containers.attempts.retry_rules import (
    GROWING_CLASSES,
    GROWTH,
    RetryRule,
    RetryRules,
    delay_before,
    grown,
    read_rules,
    rule_for,
)
from lading.core.containers.constraints import NO_LIMIT, Policy
from lading.core.containers.container import (
    FINAL,
    Container,
    ContainerState,
    failure_of,
    has_succeeded,
)
from lading.core.containers.disk_space import DISK_FACTOR, allowance, disk_factor
from lading.core.containers.request import ContainerRequest
from lading.core.containers.reuse_rights import heir
from lading.core.errors import Failure
from lading.core.quantities import later
from lading.core.values import JsonObject


@dataclass(frozen=True, slots=True)
class Retry:
    """The container to insert and the requests that now point at it."""

    container: Container
    changes: tuple[requests_.RequestChange, ...]


def failure_class(ended: Container) -> Failure | None:
    """Failure class of a container; None when it succeeded or the class is unknown."""
    # A failed command without a class is the fault of its user.
    if ended.state is ContainerState.COMPLETE and ended.exit_code:
        return failure_of(ended) or Failure.USER
    return failure_of(ended)


def reason_of(ended: Container) -> str:
    """Reason why an attempt gave no result, in one sentence; "" if its command succeeded or it has
    not ended.
    """
    if ended.state not in FINAL or has_succeeded(ended):
        return ""
    error = ended.runtime_status.get("error")
    if error:
        return str(error)
    if ended.state is ContainerState.COMPLETE:
        return f"the command ended with exit code {ended.exit_code}"
    return "no reason was given"


class RetryTerms(msgspec.Struct, frozen=True):
    """Terms of a retry: the number of retries after this kind of failure, and the rule."""

    limit: int
    rule: RetryRule


def terms(
    ended: Container, layers: Iterable[RetryRules], policy: Policy, *, fixed: bool = False
) -> RetryTerms:
    """The terms of a retry of a container; `layers` are the rules that hold before those of the
    configuration, the nearest first. `fixed`: the request never gets more ram than it asked for.
    """
    failure = failure_class(ended)
    rule = rule_for(failure, (*layers, policy.retry_rules))
    if fixed and failure is Failure.OOM:
        rule = structs.replace(rule, factor=None)
    if has_succeeded(ended):
        return RetryTerms(0, rule)
    if rule.limit is not None:
        return RetryTerms(rule.limit, rule)
    # A request for more ram is also a request for another attempt.
    if rule.grows:
        return RetryTerms(NO_LIMIT, rule)
    if ended.state is ContainerState.CANCELLED:
        limit = NO_LIMIT if failure is None else policy.retry_limits.get(failure, NO_LIMIT)
        return RetryTerms(limit, rule)
    by_result = failure in (Failure.USER, Failure.OOM)
    return RetryTerms(policy.retry_limits.get(failure, 0) if failure and by_result else 0, rule)


def plan_retries(
    ended: Container,
    requests: Iterable[ContainerRequest],
    *,
    before: Container,
    parents: Mapping[str, Container],
    earlier: Mapping[str, Container],
    uuid: str,
    now: str,
    policy: Policy,
    projects: Mapping[str, Sequence[RetryRules]] = MappingProxyType({}),
) -> Retry | None:
    """Plan a retry, or None.

    `ended` is the container in its final state, `before` the same one just before, with its
    secrets. `requests` are those that point at it, `parents` the containers that made them,
    `earlier` the known containers of their earlier attempts. `uuid` is for the new container.
    `projects` has the rules of the owner of each request and of the projects above, nearest first.
    """
    failure = failure_class(ended)
    # Each class has its own limit: three lost machines say nothing about a command that ran out of
    # memory.
    alike = {attempt.uuid for attempt in earlier.values() if failure_class(attempt) is failure}
    taken = {
        attempt.uuid for attempt in earlier.values() if failure_class(attempt) is Failure.PREEMPTED
    }
    candidates = [
        _Candidate(
            request,
            terms(ended, _layers(request, projects), policy, fixed=request.match_resources),
            _count(request, alike),
            _count(request, taken) + (failure is Failure.PREEMPTED),
        )
        for request in requests
    ]
    candidates = [candidate for candidate in candidates if _may_retry(candidate, parents, now)]
    amounts = {
        candidate.request.uuid: _amounts(candidate, ended, policy) for candidate in candidates
    }
    if failure in GROWING_CLASSES:
        candidates = _without_fixed(_below_bound(candidates, amounts, ended), amounts, ended)
    if not candidates:
        return None
    largest = _granted(candidates, amounts)
    scheduling = _scheduling(candidates, largest, ended, policy)
    # From the container before its end: the end has erased the secrets.
    made_of = structs.replace(recipe.of_container(before), scheduling_parameters=scheduling)
    if largest.ram > _of(ended).ram:
        made_of = recipe.enlarged(made_of, largest.ram)
    user = heir(before, [candidate.request for candidate in candidates])
    if user is not None:
        made_of = structs.replace(made_of, runtime_user_uuid=user)
    fresh = recipe.new_container(made_of, uuid=uuid, now=now)
    return Retry(fresh, tuple(_repointed(candidate, ended, uuid, now) for candidate in candidates))


class _Candidate(msgspec.Struct, frozen=True):
    """A request, what the rules grant to it, how many of its earlier attempts failed alike, and how
    many attempts, the last one included, lost a preemptible machine.
    """

    request: ContainerRequest
    terms: RetryTerms
    earlier: int
    lost: int


class _Amounts(msgspec.Struct, frozen=True):
    """Bytes of ram, and times the usual disk space, of an attempt."""

    ram: int
    disk_factor: float


def _below_bound(
    candidates: Sequence[_Candidate], amounts: Mapping[str, _Amounts], ended: Container
) -> list[_Candidate]:
    """The candidates that would get more than the attempt that ended, or want no more: at the bound
    another attempt would end in the same way.
    """
    return [
        candidate
        for candidate in candidates
        if not candidate.terms.rule.grows or amounts[candidate.request.uuid] != _of(ended)
    ]


def _scheduling(
    candidates: Sequence[_Candidate], largest: _Amounts, ended: Container, policy: Policy
) -> JsonObject:
    """The scheduling parameters of the one container that serves all candidates."""
    parameters = [candidate.request.scheduling_parameters for candidate in candidates]
    merged = constraints.merge_scheduling(parameters)
    if any(
        spot.has_lost_enough(theirs, candidate.lost, default=policy.spot_attempts)
        for theirs, candidate in zip(parameters, candidates, strict=True)
    ):
        merged = spot.without_preemptible(merged)
    if spot.RUN_TIME in ended.scheduling_parameters:
        merged[spot.RUN_TIME] = ended.scheduling_parameters[spot.RUN_TIME]
    return {**merged, DISK_FACTOR: largest.disk_factor} if largest.disk_factor > 1 else merged


def _layers(
    request: ContainerRequest, projects: Mapping[str, Sequence[RetryRules]]
) -> Iterator[RetryRules]:
    yield read_rules("retry", request.scheduling_parameters.get(constraints.RETRY))
    yield from projects.get(request.owner_uuid, ())


def _count(request: ContainerRequest, alike: Collection[str]) -> int:
    return sum(uuid in alike for uuid in request.attempted_container_uuids)


def _may_retry(candidate: _Candidate, parents: Mapping[str, Container], now: str) -> bool:
    request = candidate.request
    if not request.is_wanted_at(now) or request.container_count >= request.container_count_max:
        return False
    if candidate.earlier >= candidate.terms.limit:
        return False
    if request.requesting_container_uuid is None:
        return True
    # A child of a stopped workflow is not run again.
    parent = parents.get(request.requesting_container_uuid)
    return parent is not None and parent.state is ContainerState.RUNNING and parent.priority > 0


def _amounts(candidate: _Candidate, ended: Container, policy: Policy) -> _Amounts:
    """The amounts that the next attempt of a request gets by itself."""
    had, rule = _of(ended), candidate.terms.rule
    match failure_class(ended):
        case Failure.OOM:
            low, high = constraint_ranges.range_span(
                candidate.request.runtime_constraints.get("ram")
            )
            ram = grown(rule, had.ram, first=low)
            return _Amounts(min(ram, high) if low < high else ram, had.disk_factor)
        case Failure.DISK:
            return _Amounts(had.ram, _disk_factor(rule, ended, policy))
    return had


def _disk_factor(rule: RetryRule, ended: Container, policy: Policy) -> float:
    had = _of(ended).disk_factor
    if rule.factor is None:
        return had
    usual = allowance(ended.mounts, policy.scratch, output_path=ended.output_path).size
    most: float = GROWTH
    if rule.most is not None and usual:
        most = rule.most / usual
    return max(had, min(had * rule.factor, most))


def _of(container: Container) -> _Amounts:
    """The amounts that a container had."""
    ram = constraint_ranges.range_span(container.runtime_constraints.get("ram"))[0]
    return _Amounts(ram, disk_factor(container.scheduling_parameters))


def _without_fixed(
    candidates: list[_Candidate], amounts: Mapping[str, _Amounts], ended: Container
) -> list[_Candidate]:
    """The requests that one container can serve: if it gets more ram, none with
    `match_resources`.
    """
    if all(amounts[candidate.request.uuid].ram <= _of(ended).ram for candidate in candidates):
        return candidates
    return [candidate for candidate in candidates if not candidate.request.match_resources]


def _granted(candidates: Sequence[_Candidate], amounts: Mapping[str, _Amounts]) -> _Amounts:
    """The amounts that every user of the requests grants, each the largest of the user's own: a
    container of several users spends the quotas and the money of all, and teaches later requests.
    """
    by_user: dict[str, list[_Amounts]] = {}
    for candidate in candidates:
        user = candidate.request.committed_by_uuid or candidate.request.owner_uuid
        by_user.setdefault(user, []).append(amounts[candidate.request.uuid])
    granted = [_largest(several) for several in by_user.values()]
    return _Amounts(
        min(share.ram for share in granted), min(share.disk_factor for share in granted)
    )


def _largest(several: Sequence[_Amounts]) -> _Amounts:
    return _Amounts(
        max(amount.ram for amount in several), max(amount.disk_factor for amount in several)
    )


def _repointed(
    candidate: _Candidate, ended: Container, uuid: str, now: str
) -> requests_.RequestChange:
    change = requests_.assign(candidate.request, uuid)
    cost = candidate.request.cumulative_cost + ended.cost + ended.subrequests_cost
    pause = delay_before(candidate.terms.rule, candidate.earlier)
    return requests_.with_values(
        change, {"cumulative_cost": cost, "retry_after": later(now, pause) if pause else None}
    )
