"""Explanation of a request's container: the decision, each candidate's reason, and the differences
from the nearest one.

Explanations are plain JSON, made together with the decision, so that they can be stored with it and
shown later. Secrets are never shown, only that they differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lading.core.containers import request as requests_
from lading.core.containers.container import LIVE, Container, ContainerState
from lading.core.containers.git_trees import ResolvedGitTree
from lading.core.containers.recipe import COMPARED, Recipe, compared, of_container, toward
from lading.core.containers.request import ContainerRequest
from lading.core.containers.reuse import Choice, Reuse
from lading.core.differences import FieldDifference, differing
from lading.core.json_values import Json, JsonObject

NEAR = 3
"""Number of nearest containers in an explanation."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The earlier container that is most similar to a recipe."""

    container: Container
    differences: tuple[FieldDifference, ...]


def differences(ours: Recipe, theirs: Recipe) -> tuple[FieldDifference, ...]:
    """Every compared field that differs, in the order of `recipe.COMPARED`; empty if the keys are
    equal.
    """
    mine, other = compared(ours), compared(theirs)
    return tuple(one for name in COMPARED for one in differing(name, mine[name], other[name]))


def nearest(ours: Recipe, others: Iterable[Container]) -> tuple[Nearest, ...]:
    """The NEAR containers with the fewest differences; of equals the latest created first."""
    latest = sorted(others, key=lambda one: (one.created_at, one.uuid), reverse=True)
    compared_ = (Nearest(one, differences(toward(ours, one), of_container(one))) for one in latest)
    return tuple(sorted(compared_, key=lambda one: len(one.differences))[:NEAR])


def explain(
    choice: Choice,
    *,
    container_uuid: str | None,
    near: Sequence[Nearest] = (),
    trees: Mapping[str, Sequence[ResolvedGitTree]] = MappingProxyType({}),
) -> JsonObject:
    """The decision as plain JSON.

    {"decision": "reuse"|"new", "reason", "container_uuid", "candidates": [{"container_uuid",
    "state", "usable", "reason"}], "nearest": null | {"container_uuid", "state", "created_at",
    "differences": [{"field", "request", "container"}]}, "near": [{"container_uuid", "state",
    "first_difference": null | {...}}], "git": {target: {"commit", "kind", "hash", "commits"}}}.
    `container_uuid` is the container chosen or made (None in a preview of a new one); `near` are
    the nearest earlier containers, the first of them `nearest`; `git` says which commits were
    found.
    """
    candidates: list[Json] = [
        {
            "container_uuid": one.container_uuid,
            "state": str(one.state),
            "usable": one.usable,
            "reason": one.reason,
        }
        for one in choice.verdicts
    ]
    return {
        "decision": "reuse" if isinstance(choice, Reuse) else "new",
        "reason": choice.reason,
        "container_uuid": container_uuid,
        "candidates": candidates,
        "nearest": _nearest_json(near[0]) if near else None,
        "near": [_near_json(one) for one in near],
        "git": {target: _git_json(found) for target, found in trees.items()},
    }


def status_sentence(container: Container | None, dispatcher: str | None, waits: str = "") -> str:
    """`scheduling_status` of container_status (docs/spec/api, section Containers).

    `dispatcher` is the dispatcher's sentence, if any; `waits` tells why the request does not count,
    "" if it does.
    """
    if container is None:
        return waits or "No container is assigned."
    if container.state not in (ContainerState.QUEUED, ContainerState.LOCKED):
        return ""
    if waits and container.state is ContainerState.QUEUED and container.priority < 1:
        return waits
    if dispatcher is not None:
        return dispatcher
    return (
        ""
        if container.state is ContainerState.QUEUED and container.priority < 1
        else "Waiting in queue."
    )


def outcome(request: ContainerRequest, container: Container | None) -> str:
    """One sentence about the progress or the end of the request."""
    if request.state is requests_.RequestState.UNCOMMITTED:
        return "It is a draft: nothing is done for it until it is committed."
    if container is None:
        return "It has no container."
    if request.state is requests_.RequestState.FINAL and container.state in LIVE:
        return "It was cancelled before its container ended."
    if container.state is ContainerState.COMPLETE:
        return f"Its container ended with exit code {container.exit_code}{_error_of(container)}."
    if container.state is ContainerState.CANCELLED:
        return f"Its container was cancelled{_error_of(container)}."
    if container.state is ContainerState.RUNNING:
        return f"Its container has been running since {container.started_at}{_error_of(container)}."
    if container.priority > 0:
        return "Its container is waiting to run."
    return (
        "Its container is not to run yet."
        if request.priority
        else "It is on hold: its priority is 0."
    )


def _near_json(near: Nearest) -> JsonObject:
    return {
        "container_uuid": near.container.uuid,
        "state": str(near.container.state),
        "first_difference": _difference_json(near.differences[0]) if near.differences else None,
    }


def _git_json(found: Sequence[ResolvedGitTree]) -> JsonObject:
    first = found[0]
    return {"commit": first.commit, "kind": first.kind, "hash": first.hash, "commits": len(found)}


def _difference_json(one: FieldDifference) -> JsonObject:
    return {"field": one.field, "request": one.ours, "container": one.theirs}


def _nearest_json(near: Nearest) -> JsonObject:
    found: list[Json] = [_difference_json(one) for one in near.differences]
    return {
        "container_uuid": near.container.uuid,
        "state": str(near.container.state),
        "created_at": near.container.created_at,
        "differences": found,
    }


def _error_of(container: Container) -> str:
    error = container.runtime_status.get("error")
    return f" ({error})" if error else ""
