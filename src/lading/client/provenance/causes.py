"""Finds the causes of different results: from a step to the steps that made its inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.client.request_states import shown_command
from lading.core.containers.comparison import (
    ComparedRequest,
    apart_from,
    changed_inputs,
    compare_requests,
)
from lading.core.ids import Infix, infix_of
from lading.core.values import FieldDifference

_MOST: Final = 200
"""Pairs of steps that are compared."""
_SELECT: Final = ("uuid", "name", "command", "container_uuid", "state", "secrets_needed")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepComparison:
    """A step of two pipelines.

    `fields`: what differs, without inputs that an earlier step explains; the first cause first.
    `explained`: the paths of those inputs. `repeats` is False when the same recipe gave two
    outputs.
    """

    ours: ComparedRequest
    theirs: ComparedRequest
    fields: tuple[FieldDifference, ...]
    explained: tuple[str, ...]
    repeats: bool

    @property
    def name(self) -> str:
        """The name of our request, or its command."""
        request = dict(self.ours.request)
        return str(request.get("name") or shown_command(request))


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """Steps that differ, the two that were asked for first; `is_cut`: more were not compared."""

    steps: tuple[StepComparison, ...]
    is_cut: bool

    @property
    def first(self) -> StepComparison | None:
        """The step that is the cause: the furthest one that differs by itself."""
        own = [step for step in self.steps if step.fields or not step.repeats]
        return own[-1] if own else None


async def side_of(api: ApiClient, request: Record) -> ComparedRequest:
    """A request with its container, to be compared."""
    held = request["container_uuid"]
    container = await api.get("containers", held) if held else None
    return ComparedRequest(request=request, container=container)


async def find_causes(
    api: ApiClient, ours: ComparedRequest, theirs: ComparedRequest, *, most: int = _MOST
) -> Causes:
    """Compare two requests, and the steps that made their different inputs, as far as the caller
    may read them. At most `most` pairs of steps are compared.
    """
    ahead, steps = [(ours, theirs)], list[StepComparison]()
    compared: set[tuple[str, str]] = set()
    while ahead and len(steps) < most:
        ours_ahead, theirs_ahead = ahead.pop(0)
        explained = []
        for target, hashes in changed_inputs(ours_ahead, theirs_ahead).items():
            pair = await _makers(api, hashes)
            if pair is None:
                continue
            explained.append(target)
            uuids = _uuid(pair[0]), _uuid(pair[1])
            if uuids not in compared:
                compared.add(uuids)
                ahead.append(pair)
        steps.append(
            _step(
                ours_ahead, theirs_ahead, explained, await _secrets(api, ours_ahead, theirs_ahead)
            )
        )
    return Causes(steps=tuple(steps), is_cut=bool(ahead))


async def _secrets(
    api: ApiClient, ours: ComparedRequest, theirs: ComparedRequest
) -> tuple[FieldDifference, ...]:
    """The difference of the secrets of two requests, without their values; none where the server
    does not report it.
    """
    if not any(compared.request.get("secrets_needed") for compared in (ours, theirs)):
        return ()
    uuid, other_uuid = (str(compared.request["uuid"]) for compared in (ours, theirs))
    if infix_of(uuid) != Infix.REQUEST or infix_of(other_uuid) != Infix.REQUEST:
        return ()
    params = {"compared_with": other_uuid}
    why: Any = await api.request("GET", f"container_requests/{uuid}/why", params=params)
    if not why.get("secrets_differ"):
        return ()
    return (FieldDifference("secrets", "(not shown)", "(another, not shown)"),)


def _step(
    ours: ComparedRequest,
    theirs: ComparedRequest,
    explained: list[str],
    secrets: tuple[FieldDifference, ...],
) -> StepComparison:
    compared = compare_requests(ours, theirs)
    cause = compared.cause + secrets
    outputs = {(side.container or {}).get("output") for side in (ours, theirs)}
    return StepComparison(
        ours=ours,
        theirs=theirs,
        fields=apart_from(cause, explained),
        explained=tuple(explained),
        repeats=bool(cause) or None in outputs or len(outputs) == 1,
    )


async def _makers(
    api: ApiClient, hashes: tuple[str, str]
) -> tuple[ComparedRequest, ComparedRequest] | None:
    """The steps whose outputs have these hashes; None unless there are two different steps."""
    containers = await api.list(
        "containers", filters=[["output", "in", list(hashes)]], order=["created_at asc"]
    )
    makers = {container["output"]: container for container in reversed(containers)}
    if any(pdh not in makers for pdh in hashes):
        return None
    names = await _requests(api, (container["uuid"] for container in makers.values()))
    ours, theirs = (
        ComparedRequest(request=names.get(makers[pdh]["uuid"], makers[pdh]), container=makers[pdh])
        for pdh in hashes
    )
    return ours, theirs


async def _requests(api: ApiClient, containers: Iterable[str]) -> dict[str, Record]:
    listed = await api.list(
        "container_requests",
        filters=[["container_uuid", "in", list(containers)]],
        select=_SELECT,
        order=["created_at asc"],
    )
    return {request["container_uuid"]: request for request in reversed(listed)}


def _uuid(side: ComparedRequest) -> str:
    return str((side.container or {})["uuid"])
