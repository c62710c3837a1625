"""The explanation of reuse: the nearest candidates, and sentences on how a request ended.

An explanation has the decision, the reason of each candidate that the user can read, and the
differences from the most similar containers. It is plain JSON, made together with the decision, so
that it can be stored with it and shown later. A reason that quotes a record is stored without the
quotation, because the explanation has more readers than the record; `shown_candidates` adds it.
Secrets are never shown, only that they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lading.core.containers import request_phases
from lading.core.containers.container import LIVE, Container, ContainerState
from lading.core.containers.mounting.git_trees import ResolvedGitTree
from lading.core.containers.recipe import Recipe, of_container, recipe_differences, toward
from lading.core.containers.request import ContainerRequest
from lading.core.containers.reuse import REPORTS_ERROR, WITHDRAWN, Choice, Reuse
from lading.core.quantities import told_time
from lading.core.values import FieldDifference, Json, JsonObject

# The words of the record that belong to a fault.
_DETAILS: Mapping[str | None, Callable[[Container], str]] = MappingProxyType(
    {
        WITHDRAWN: lambda container: container.withdrawn_reason or "",
        REPORTS_ERROR: lambda container: str(container.runtime_status.get("error") or ""),
    }
)
NEAR = 3
"""Number of nearest containers in an explanation."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The earlier container that is most similar to a recipe."""

    container: Container
    differences: tuple[FieldDifference, ...]


def nearest(ours: Recipe, others: Iterable[Container]) -> tuple[Nearest, ...]:
    """The NEAR containers with the fewest differences; of equals the latest created first."""
    # `sorted` below is stable: among equal numbers of differences the latest stays first.
    latest = sorted(
        others, key=lambda container: (container.created_at, container.uuid), reverse=True
    )
    compared_ = (
        Nearest(container, recipe_differences(toward(ours, container), of_container(container)))
        for container in latest
    )
    return tuple(sorted(compared_, key=lambda entry: len(entry.differences))[:NEAR])


def explain(
    choice: Choice,
    *,
    container_uuid: str | None,
    near: Sequence[Nearest] = (),
    trees: Mapping[str, Sequence[ResolvedGitTree]] = MappingProxyType({}),
    rule: str = "",
) -> JsonObject:
    """The decision as plain JSON.

    {"decision": "reuse"|"new", "reason", "rule", "container_uuid", "candidates":
    [{"container_uuid", "state", "exit_code", "usable", "reason"}], "nearest": null |
    {"container_uuid", "state", "exit_code", "created_at", "differences": [{"field", "request",
    "container"}]}, "near": [{"container_uuid", "state", "exit_code", "first_difference": null |
    {...}}], "git": {target: {"commit", "kind", "hash", "commits"}}}. `container_uuid` is the
    container chosen or made (None in a preview of a new one, and of one that the user cannot read
    yet); `near` are the nearest earlier containers, the first of them `nearest`; `git` says which
    commits were found; `rule` says which containers of other users may be used
    (`reuse_rights.rule`).
    """
    hidden = choice.container.uuid if isinstance(choice, Reuse) and not container_uuid else None
    candidates: list[Json] = [
        {
            "container_uuid": verdict.container_uuid,
            "state": str(verdict.state),
            "exit_code": verdict.exit_code,
            "usable": verdict.usable,
            "reason": verdict.reason,
        }
        for verdict in choice.verdicts
        if verdict.container_uuid != hidden
    ]
    return {
        "decision": "reuse" if isinstance(choice, Reuse) else "new",
        "reason": choice.reason,
        "rule": rule,
        "container_uuid": container_uuid,
        "candidates": candidates,
        "nearest": _nearest_json(near[0]) if near else None,
        "near": [_near_json(entry) for entry in near],
        "git": {target: _git_json(resolved_trees) for target, resolved_trees in trees.items()},
    }


def shown_candidates(
    candidates: Iterable[JsonObject], readable: Mapping[str, Container]
) -> list[Json]:
    """Of the candidates of an explanation those that are among the containers that somebody can
    read, with the words of their records in the reasons.
    """
    shown: list[Json] = []
    for candidate in candidates:
        container = readable.get(str(candidate["container_uuid"]))
        if container is not None:
            quote = _DETAILS.get(str(candidate["reason"]))
            detail = quote(container) if quote is not None else ""
            shown.append(
                {**candidate, "reason": f"{candidate['reason']}: {detail}"} if detail else candidate
            )
    return shown


def status_sentence(container: Container | None, dispatcher: str | None, waits: str = "") -> str:
    """`scheduling_status` of container_status (docs/spec/api, section Containers).

    `dispatcher` is the dispatcher's sentence, if any; `waits` tells why the request does not count,
    "" if it does.
    """
    if container is None:
        return waits or "No container is assigned."
    if container.state not in (ContainerState.QUEUED, ContainerState.LOCKED):
        return ""
    # The dispatcher says nothing about a container that nobody wants now: the reason is in the
    # request.
    if waits and container.state is ContainerState.QUEUED and container.priority < 1:
        return waits
    if dispatcher is not None:
        return dispatcher
    return (
        ""
        if container.state is ContainerState.QUEUED and container.priority < 1
        else "Waiting in queue."
    )


def request_outcome(request: ContainerRequest, container: Container | None) -> str:
    """One sentence about the progress or the end of the request."""
    if request.state is request_phases.RequestState.UNCOMMITTED:
        return "It is a draft: nothing is done for it until it is committed."
    if container is None:
        return "It has no container."
    if request.state is request_phases.RequestState.FINAL and container.state in LIVE:
        return "It was cancelled before its container ended."
    if container.state is ContainerState.COMPLETE:
        return f"Its container ended with exit code {container.exit_code}{_error_of(container)}."
    if container.state is ContainerState.CANCELLED:
        return f"Its container was cancelled{_error_of(container)}."
    if container.state is ContainerState.RUNNING:
        since = f" since {told_time(container.started_at)}" if container.started_at else ""
        return f"Its container has been running{since}{_error_of(container)}."
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
        "exit_code": near.container.exit_code,
        "first_difference": _difference_json(near.differences[0]) if near.differences else None,
    }


def _git_json(trees: Sequence[ResolvedGitTree]) -> JsonObject:
    first = trees[0]
    return {"commit": first.commit, "kind": first.kind, "hash": first.hash, "commits": len(trees)}


def _difference_json(difference: FieldDifference) -> JsonObject:
    return {"field": difference.field, "request": difference.ours, "container": difference.theirs}


def _nearest_json(near: Nearest) -> JsonObject:
    differences: list[Json] = [_difference_json(difference) for difference in near.differences]
    return {
        "container_uuid": near.container.uuid,
        "state": str(near.container.state),
        "exit_code": near.container.exit_code,
        "created_at": near.container.created_at,
        "differences": differences,
    }


def _error_of(container: Container) -> str:
    error = container.runtime_status.get("error")
    return f" ({str(error).removesuffix('.')})" if error else ""
