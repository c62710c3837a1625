"""Decides whether an existing container can answer a request, with a reason for each candidate.

In order of preference (docs/spec/containers, section Reuse): finished with exit code 0, log and
output still stored (the earliest finished); running without an error and wanted (most progress,
then earliest started); Locked, then Queued (highest priority, then oldest). Cancelled and failed
containers are never used. A request that is not preemptible does not join a waiting preemptible
container, and none joins a container that waits for its result. Cache sizes may differ within the
variations in `constraints`; other sizes within the ranges of the request. A container must also
satisfy the request's `filters`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from lading.core.containers.container import Container, State
from lading.core.containers.ranges import GROWING
from lading.core.containers.recipe import Recipe, cache_difference, toward
from lading.core.json_values import JsonObject, same
from lading.core.policy import Policy


@dataclass(frozen=True, slots=True)
class Candidate:
    """A container with one of the recipe's `keys`, and whether collections with its log's and
    output's hash exist.

    `filtered`: it does not satisfy the request's `filters`.
    """

    container: Container
    log_present: bool = False
    output_present: bool = False
    filtered: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one candidate can be used, with the reason."""

    container_uuid: str
    state: State
    usable: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Reuse:
    """Use this container."""

    container: Container
    reason: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class New:
    """Make a new container."""

    reason: str
    verdicts: tuple[Verdict, ...]


Choice: TypeAlias = Reuse | New


_WHY: Mapping[State, str] = MappingProxyType(
    {
        State.COMPLETE: "the same was computed before, and its output and log are still there",
        State.RUNNING: "the same is being computed now",
        State.LOCKED: "the same is about to be computed",
        State.QUEUED: "the same is waiting to be computed",
    }
)
_RANK = tuple(_WHY)


def choose(
    recipe: Recipe,
    candidates: Iterable[Candidate],
    *,
    policy: Policy,
    use_existing: bool = True,
    waiting: Collection[str] = (),
) -> Choice:
    """The container to use, or the decision to make one, with a reason for each candidate.

    Pass the containers found by `recipe.keys(...)`. With `use_existing` false none is considered.
    `waiting`: the containers that wait for the result: the requesting container and its ancestors.
    """
    if not use_existing:
        return New("the request asks for a new container (use_existing is false)", ())
    known = list(candidates)
    verdicts = tuple(_judge(recipe, one, policy=policy, waiting=waiting) for one in known)
    usable = [one.container for one, verdict in zip(known, verdicts, strict=True) if verdict.usable]
    if usable:
        best = min(usable, key=_preference)
        return Reuse(best, _WHY[best.state], verdicts)
    if not verdicts:
        return New("the same was never asked for before", ())
    return New("the same was asked for before, but none of those containers can be used", verdicts)


def _judge(
    recipe: Recipe, candidate: Candidate, *, policy: Policy, waiting: Collection[str]
) -> Verdict:
    container = candidate.container
    fault = _fault_of_state(recipe, candidate, policy=policy)
    size = _other_size(recipe, container) or cache_difference(recipe, container, policy=policy)
    # These faults replace that of the state: they hold in every state.
    if container.uuid in waiting:
        fault = "it waits for the result of this request itself"
    elif candidate.filtered:
        fault = "it does not meet the filters of the request"
    elif size is not None:
        fault = f"it has another {size}"
    return Verdict(container.uuid, container.state, fault is None, fault or _WHY[container.state])


def _other_size(recipe: Recipe, container: Container) -> str | None:
    ours, theirs = toward(recipe, container).runtime_constraints, container.runtime_constraints
    return next((name for name in GROWING if not same(ours.get(name), theirs.get(name))), None)


def _fault_of_state(recipe: Recipe, candidate: Candidate, *, policy: Policy) -> str | None:
    container = candidate.container
    if container.state is State.CANCELLED:
        return "it was cancelled and has no result"
    if container.interactive_session_started and not policy.reuse_after_shell:
        return (
            "somebody was inside with a shell, so its result may not be that of its command alone"
        )
    if container.state is State.COMPLETE:
        return _fault_of_result(candidate)
    if container.state is State.RUNNING:
        return _fault_of_run(container)
    if _may_be_preempted(container.scheduling_parameters) and not _may_be_preempted(
        recipe.scheduling_parameters
    ):
        return "it waits for a preemptible instance, which the request does not accept"
    return None


def _fault_of_result(candidate: Candidate) -> str | None:
    if candidate.container.exit_code != 0:
        return f"it ended with exit code {candidate.container.exit_code}"
    if not candidate.log_present:
        return "its log was deleted"
    if not candidate.output_present:
        return "its output was deleted"
    return None


def _fault_of_run(container: Container) -> str | None:
    if "error" in container.runtime_status:
        return f"it is running but reports an error: {container.runtime_status['error']}"
    if container.priority <= 0:
        return "it is running but is being cancelled (priority 0)"
    return None


def _may_be_preempted(scheduling: JsonObject) -> bool:
    return scheduling.get("preemptible") is True


def _preference(container: Container) -> tuple[int, float, int, str, str]:
    """Sort key, the preferred container first; unreported progress counts as most, as in
    PostgreSQL's order of nulls.
    """
    rank = _RANK.index(container.state)
    if container.state is State.COMPLETE:
        return rank, 0.0, 0, container.finished_at or "", container.uuid
    if container.state is State.RUNNING:
        progress = 2.0 if container.progress is None else container.progress
        return rank, -progress, 0, container.started_at or "", container.uuid
    return rank, 0.0, -container.priority, container.created_at, container.uuid
