"""Preview of a whole pipeline: the steps that are reused, the steps that run, and the reasons; with
the time and the cost of earlier runs.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.core.containers.comparison import part_of
from lading.core.errors import Invalid
from lading.core.quantities import parse_time

_CALLS: Final = 8
"""Steps that the server is asked about at a time."""
_PAGE: Final = 100
_SIBLING: Final = re.compile(r"#(0|[1-9][0-9]{0,5})")
_NEW: Final = "it is new"
_NO_REUSE: Final = "reuse is switched off"
_FIELDS: Final = ("uuid", "started_at", "finished_at", "cost", "state", "output")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPreview:
    """A step of a pipeline that is not submitted.

    `reused`: the uuid of the container whose result it would have, "" for one of another user that
    is not named; None if it would run. `reason`: why it would run.
    `seconds` and `cost` (dollars) are of the nearest earlier run, None without an earlier run.
    """

    name: str
    reused: str | None
    reason: str = ""
    seconds: float | None = None
    cost: float | None = None


@dataclass(slots=True, kw_only=True)
class _StepFacts:
    """Facts known of a step while other steps are examined."""

    reused: str | None = None
    output: str | None = None
    reason: str = ""
    earlier: str | None = None


async def preview_pipeline(api: ApiClient, items: Sequence[Mapping[str, Any]]) -> list[StepPreview]:
    """Look at the attributes of requests, which may name earlier ones as `#N`, as in a batch.

    A step that reads what another step has yet to make runs, because its input is not known. Raises
    Invalid for a name of a later step, and the errors of the API for a step that it would refuse.
    """
    needs = [_needed(number, item) for number, item in enumerate(items)]
    previews = [_StepFacts() for _ in items]
    tasks: list[asyncio.Task[None]] = []
    gate = asyncio.Semaphore(_CALLS)

    async def look(number: int, item: Mapping[str, Any]) -> None:
        needed = needs[number]
        await asyncio.gather(*(tasks[step] for step in needed))
        for step in needed:
            # None also of a container that is running: the step would wait for it.
            if previews[step].output is None:
                name = items[step].get("name") or f"step {step}"
                previews[number].reason = f"{name} runs"
                return
        async with gate:
            await _ask(api, _bound(item, previews), previews[number])

    async with asyncio.TaskGroup() as group:
        for number, item in enumerate(items):
            tasks.append(group.create_task(look(number, item)))
    return await _with_history(api, items, previews)


def summary(steps: Sequence[StepPreview]) -> str:
    """One sentence: the numbers of steps that are reused and that run, and why they run."""
    running = [step for step in steps if step.reused is None]
    sentence = (
        f"{len(steps)} step{'' if len(steps) == 1 else 's'}: {len(steps) - len(running)} reused"
    )
    if not running:
        return sentence
    own = dict.fromkeys(step.reason for step in running if not step.reason.endswith(" runs"))
    why = f" because {', '.join(own)}" if own else ""
    return f"{sentence}, {len(running)} to run{why}"


async def _ask(api: ApiClient, item: Record, preview: _StepFacts) -> None:
    answer = await api.action("container_requests", None, "preview", body=item)
    near = answer.get("nearest") or {}
    if answer["decision"] == "reuse":
        # A container of another user is named once the request has it.
        preview.reused = answer["container_uuid"] or ""
        preview.earlier = answer["container_uuid"]
        preview.output = answer["output"]
        return
    preview.earlier = near.get("container_uuid")
    preview.reason = _reason(answer, item)


def _reason(answer: Mapping[str, Any], item: Mapping[str, Any]) -> str:
    """Reason why a step runs: the reason of a container that cannot be used, or the first
    difference.
    """
    if item.get("use_existing") is False:
        return _NO_REUSE
    for candidate in answer.get("candidates") or ():
        return f"of the earlier result {candidate['reason']}"
    differences = (answer.get("nearest") or {}).get("differences") or ()
    for difference in differences:
        field = str(difference["field"])
        name = field.removeprefix("environment.")
        return f"{name if name != field else f'its {part_of(field)}'} changed"
    return _NEW


def _needed(number: int, item: Mapping[str, Any]) -> list[int]:
    """The numbers of the steps that a step names. Raises Invalid."""
    mounts = (item.get("mounts") or {}).values()
    named = [*(item.get("depends_on") or ()), *(mount.get("container_request") for mount in mounts)]
    steps = []
    for reference in named:
        match = _SIBLING.fullmatch(reference) if isinstance(reference, str) else None
        if match and int(match[1]) >= number:
            raise Invalid(f"step {number}: {reference} is not an earlier step")
        if match:
            steps.append(int(match[1]))
    return list(dict.fromkeys(steps))


def _bound(item: Mapping[str, Any], previews: Sequence[_StepFacts]) -> Record:
    """The attributes with contents in place of the outputs of steps that are reused."""
    mounts = {}
    for target, mount in (item.get("mounts") or {}).items():
        match = _SIBLING.fullmatch(str(mount.get("container_request")))
        if match is None:
            mounts[target] = mount
            continue
        path = {"path": mount["path"]} if mount.get("path") else {}
        output = previews[int(match[1])].output
        mounts[target] = {"kind": "collection", "portable_data_hash": output, **path}
    needs = [
        reference
        for reference in item.get("depends_on") or ()
        if not _SIBLING.fullmatch(str(reference))
    ]
    return {**item, "mounts": mounts, "depends_on": needs}


async def _with_history(
    api: ApiClient, items: Sequence[Mapping[str, Any]], previews: Sequence[_StepFacts]
) -> list[StepPreview]:
    names = [str(item.get("name") or "") for item in items]
    unknown = {
        name for name, preview in zip(names, previews, strict=True) if name and not preview.earlier
    }
    latest = await _latest_named(api, sorted(unknown))
    earlier = [
        preview.earlier or latest.get(name) for name, preview in zip(names, previews, strict=True)
    ]
    containers = {
        container["uuid"]: container
        for container in await _listed(
            api, "containers", "uuid", [uuid for uuid in dict.fromkeys(earlier) if uuid], _FIELDS
        )
    }
    return [
        _step(name or f"step {number}", preview, containers.get(uuid or ""))
        for number, (name, preview, uuid) in enumerate(zip(names, previews, earlier, strict=True))
    ]


def _step(name: str, preview: _StepFacts, container: Record | None) -> StepPreview:
    if preview.reused is not None:
        return StepPreview(name=name, reused=preview.reused, seconds=0.0, cost=0.0)
    seconds, cost = None, None
    if container is not None and container["started_at"] and container["finished_at"]:
        took = parse_time(container["finished_at"]) - parse_time(container["started_at"])
        seconds, cost = took.total_seconds(), float(container["cost"] or 0)
    return StepPreview(name=name, reused=None, reason=preview.reason, seconds=seconds, cost=cost)


async def _latest_named(api: ApiClient, names: Sequence[str]) -> dict[str, str]:
    """The container of the latest request of each name that has ended."""
    latest: dict[str, Record] = {}
    fields = ("uuid", "name", "container_uuid", "created_at", "state")
    for row in await _listed(api, "container_requests", "name", names, fields):
        rival = latest.get(row["name"])
        is_later = rival is None or row["created_at"] > rival["created_at"]
        if row["container_uuid"] and row["state"] == "Final" and is_later:
            latest[row["name"]] = row
    return {name: str(row["container_uuid"]) for name, row in latest.items()}


async def _listed(
    api: ApiClient, plural: str, field: str, values: Iterable[str], select: Sequence[str]
) -> list[Record]:
    wanted, found = list(values), list[Record]()
    for start in range(0, len(wanted), _PAGE):
        filters = [[field, "in", wanted[start : start + _PAGE]]]
        async for rows in api.pages(plural, filters=filters, select=select):
            found += rows
    return found
