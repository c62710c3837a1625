"""Steps of a run that are submitted again as its next attempt.

All steps run again, or one step with all that need it, while the others reuse their results. A
request that failed and was submitted again within the attempt counts once: its last try. A step
that reads the content of an earlier step reads the output of the new one instead.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lading.core.drawing.layered import layers
from lading.core.errors import Invalid, NotFound
from lading.core.ids import EMPTY_PDH
from lading.core.quantities import shorten
from lading.core.request_status import RequestStatus
from lading.core.runs.report import show_value
from lading.core.runs.step_groups import RunStep, needs_of
from lading.core.runs.summaries import CWL_INPUTS

_ENDED_BADLY: Final = (RequestStatus.FAILED, RequestStatus.CANCELLED)
_SNAKEMAKE: Final = "snakemake"
_LONGEST: Final = 200
"""Characters of a command line in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunPlan:
    """The steps of the next attempt, each after those that it needs. Those of `again` (uuids) run
    again, the others reuse their results where they can. `renamed` has the last try of each request
    that was tried again, by its uuid; `makers` the step of `again` that made a collection, by the
    hash and the uuid of that; `position` the place of each step.
    """

    steps: tuple[RunStep, ...]
    again: frozenset[str]
    renamed: Mapping[str, str]
    makers: Mapping[str, str]
    position: Mapping[str, int]


def plan_rerun(steps: Sequence[RunStep], start: Sequence[str] = ()) -> RerunPlan:
    """The plan for steps in the order of their submission; `start` names steps or requests, by
    default all run again. Raises NotFound for an unknown name, Invalid for a run without steps.
    """
    renamed = _tried_again(steps)
    last = {
        step.uuid: step
        for step in steps
        if step.state is not RequestStatus.DRAFT and step.uuid not in renamed
    }
    if not last:
        raise Invalid("the run has no step that could run again")
    needs = {
        uuid: [renamed.get(needed, needed) for needed in before]
        for uuid, before in needs_of(steps).items()
        if uuid in last
    }
    edges = [(needed, uuid) for uuid, before in needs.items() for needed in before]
    order = [last[uuid] for layer in layers(list(last), edges) for uuid in layer]
    again = _with_dependents(order, needs, start)
    return RerunPlan(
        steps=tuple(order),
        again=again,
        renamed=renamed,
        makers=_makers(step for step in order if step.uuid in again),
        position={step.uuid: number for number, step in enumerate(order)},
    )


def _tried_again(steps: Sequence[RunStep]) -> dict[str, str]:
    """The last request with the same name and command, by each that failed before it."""
    last: dict[tuple[str, str, tuple[str, ...]], str] = {}
    renamed: dict[str, str] = {}
    for step in reversed(steps):
        key = (step.group, step.name, step.command)
        if key in last and step.state in _ENDED_BADLY:
            renamed[step.uuid] = last[key]
        last.setdefault(key, step.uuid)
    return renamed


def _with_dependents(
    order: Sequence[RunStep], needs: Mapping[str, Sequence[str]], start: Sequence[str]
) -> frozenset[str]:
    """The steps named `start` with all that need them; all without a name. Raises NotFound."""
    for name in start:
        if not any(name in (step.group, step.name, step.uuid) for step in order):
            steps = ", ".join(list(dict.fromkeys(step.group for step in order))[:10])
            raise NotFound(f"{name[:60]}: the run has no such step; it has {steps[:180]}")
    again: set[str] = set()
    for step in order:
        is_named = not start or not {step.group, step.name, step.uuid}.isdisjoint(start)
        if is_named or not again.isdisjoint(needs[step.uuid]):
            again.add(step.uuid)
    return frozenset(again)


def _makers(steps: Iterable[RunStep]) -> dict[str, str]:
    makers: dict[str, str] = {}
    for step in steps:
        if step.state is RequestStatus.DONE and step.output != EMPTY_PDH:
            for collection in (step.output, step.output_uuid):
                if collection:
                    makers.setdefault(collection, step.uuid)
    return makers


def renew(request: Mapping[str, Any], plan: RerunPlan) -> dict[str, Any]:
    """A request of the plan as the next attempt has it: where it read the output of a step that
    runs again, by content, it needs that step.
    """
    return {
        **request,
        "depends_on": [plan.renamed.get(uuid, uuid) for uuid in request.get("depends_on") or ()],
        "mounts": {
            target: _renewed(mount, plan, plan.position[request["uuid"]])
            for target, mount in request["mounts"].items()
        },
    }


def _renewed(mount: Mapping[str, Any], plan: RerunPlan, position: int) -> dict[str, Any]:
    """A mount of the step at a position."""
    asked = mount.get("container_request")
    if isinstance(asked, str) and asked in plan.renamed:
        return {**mount, "container_request": plan.renamed[asked]}
    if mount.get("kind") != "collection" or mount.get("writable"):
        return dict(mount)
    named = str(mount.get("portable_data_hash") or mount.get("uuid") or "")
    collection, _, inner = named.partition("/")
    maker = plan.makers.get(collection)
    # The content of an input from outside may be equal to a later output.
    if maker is None or plan.position[maker] >= position:
        return dict(mount)
    path = "/".join(filter(None, (inner.strip("/"), str(mount.get("path") or "").strip("/"))))
    renewed: dict[str, Any] = {"kind": "output", "container_request": maker}
    renewed |= {"path": path} if path else {}
    return renewed | ({"exclude_from_output": True} if mount.get("exclude_from_output") else {})


def replace_inputs(request: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The request of a CWL runner with other values in its input object. Raises Invalid for an
    input that the object has not, and where the request has no such object.
    """
    mounts = request["mounts"]
    target = next((name for name in CWL_INPUTS if _content(mounts.get(name)) is not None), None)
    if target is None:
        raise Invalid(
            f"{request['uuid']}: has its inputs in no mount; submit the workflow again with "
            "arvados-cwl-runner"
        )
    content = _content(mounts[target]) or {}
    for name in values:
        if name not in content:
            inputs = ", ".join(map(str, content)) or "none"
            raise Invalid(
                f"--set {name[:40]}: the workflow has no such input; it has {inputs[:200]}"
            )
    mount = {**mounts[target], "content": {**content, **values}}
    return {**request, "mounts": {**mounts, target: mount}}


def _content(mount: object) -> Mapping[str, Any] | None:
    content = mount.get("content") if isinstance(mount, Mapping) else None
    return content if isinstance(content, Mapping) else None


def command_with(run: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """How to run the program of a run again with other parameters: its steps have their commands
    from that program.
    """
    name, source = shlex.quote(str(run["name"])), run["source"]
    options = [shlex.quote(f"{key}={show_value(value)}") for key, value in values.items()]
    if source.get("script") == _SNAKEMAKE:
        return shorten(f"LADING_RUN={name} snakemake --config {' '.join(options)}", _LONGEST)
    params = " ".join(f"--param {option}" for option in options)
    script = source.get("script") or "its program"
    return shorten(f'eval "$(lading runs begin {name} {params})", then {script}', _LONGEST)
