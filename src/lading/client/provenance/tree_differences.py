"""Differences of two trees of requests, step by step: steps of the same name are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lading.client.api import ApiClient, Record
from lading.client.provenance.origins import find_origins
from lading.client.request_states import whole_command
from lading.core.containers.comparison import (
    ComparedRequest,
    apart_from,
    changed_inputs,
    compare_requests,
)
from lading.core.drawing.step_names import step_name
from lading.core.values import FieldDifference

_PAGE: Final = 100
_Name = tuple[str, int]
"""The name of a step, and its number among the steps of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDifference:
    """A step of two trees: `before` and `after` are its requests, None in the tree without it.

    `fields` are its own differences; `explained` the inputs that other steps have made otherwise.
    """

    name: str
    before: Record | None
    after: Record | None
    fields: tuple[FieldDifference, ...] = ()
    explained: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether there is anything to show."""
        return self.before is None or self.after is None or bool(self.fields or self.explained)


async def compare_trees(api: ApiClient, before: str, after: str) -> list[StepDifference]:
    """The steps of the trees that led to two requests, the earliest first. Raises as
    `find_origins`.
    """
    old, new = [await _sides(api, await find_origins(api, uuid)) for uuid in (before, after)]
    outputs = {
        str((step.container or {}).get("output")): None
        for some in (old, new)
        for step in some.values()
    }
    steps = []
    for name in dict.fromkeys([*old, *new]):
        theirs, ours = old.get(name), new.get(name)
        if theirs is None or ours is None:
            steps.append(
                StepDifference(
                    name=_shown(name),
                    before=dict(theirs.request) if theirs else None,
                    after=dict(ours.request) if ours else None,
                )
            )
            continue
        inputs = changed_inputs(ours, theirs)
        explained = [
            target for target, pair in inputs.items() if all(pdh in outputs for pdh in pair)
        ]
        fields = apart_from(compare_requests(ours, theirs).cause, explained)
        steps.append(
            StepDifference(
                name=_shown(name),
                before=dict(theirs.request),
                after=dict(ours.request),
                fields=fields,
                explained=tuple(explained),
            )
        )
    return steps


def _shown(name: _Name) -> str:
    return f"{name[0]} ({name[1] + 1})" if name[1] else name[0]


async def _sides(api: ApiClient, uuids: Sequence[str]) -> dict[_Name, ComparedRequest]:
    requests = await _listed(api, "container_requests", uuids)
    container_uuids = [
        str(request["container_uuid"]) for request in requests if request["container_uuid"]
    ]
    containers = {
        container["uuid"]: container
        for container in await _listed(api, "containers", container_uuids)
    }
    sides: dict[_Name, ComparedRequest] = {}
    numbers: dict[str, int] = {}
    for request in sorted(requests, key=lambda request: (request["created_at"], request["uuid"])):
        name = step_name(str(request["name"] or whole_command(request)))
        number = numbers[name] = numbers.get(name, -1) + 1
        container = containers.get(request["container_uuid"])
        sides[name, number] = ComparedRequest(request=request, container=container)
    return sides


async def _listed(api: ApiClient, plural: str, uuids: Sequence[str]) -> list[Record]:
    wanted, found = list(dict.fromkeys(uuids)), list[Record]()
    for start in range(0, len(wanted), _PAGE):
        filters = [["uuid", "in", wanted[start : start + _PAGE]]]
        async for rows in api.pages(plural, filters=filters):
            found += rows
    return found
