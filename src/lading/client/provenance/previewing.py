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
    `seconds` and `cost` (dollars) are those of the nearest earlier run, None if there is none.
    """

    name: str
    reused: str | None
    reason: str = ""
    seconds: float | None = None
    cost: float | None = None


@dataclass(slots=True, kw_only=True)
class _Found:
    """Facts known of a step while other steps are examined."""

    reused: str | None = None
    output: str | None = None
    reason: str = ""
    earlier: str | None = None


async def preview_pipeline(api: ApiClient, items: Sequence[Mapping[str, Any]]) -> list[StepPreview]:
    """Look at the attributes of requests, which may name earlier ones as `#N`, as in a batch.

    A step that reads what another step has yet to make runs, because its input is not known. Raises
    Invalid for a name of a later step, and the errors of the API for steps that would be refused.
    """
    needs = [_needed(number, item) for number, item in enumerate(items)]
    found = [_Found() for _ in items]
    tasks: list[asyncio.Task[None]] = []
    gate = asyncio.Semaphore(_CALLS)

    async def look(number: int, item: Mapping[str, Any]) -> None:
        needed = needs[number]
        await asyncio.gather(*(tasks[one] for one in needed))
        for one in needed:
            # None also of a container that is running: the step would wait for it.
            if found[one].output is None:
                name = items[one].get("name") or f"step {one}"
                found[number].reason = f"{name} runs"
                return
        async with gate:
            await _ask(api, _bound(item, found), found[number])

    async with asyncio.TaskGroup() as group:
        for number, item in enumerate(items):
            tasks.append(group.create_task(look(number, item)))
    return await _with_history(api, items, found)


def summary(steps: Sequence[StepPreview]) -> str:
    """One sentence: how many are reused, how many run and why, and how long that took before."""
    running = [one for one in steps if one.reused is None]
    text = f"{len(steps)} step{'' if len(steps) == 1 else 's'}: {len(steps) - len(running)} reused"
    if not running:
        return text
    own = dict.fromkeys(one.reason for one in running if not one.reason.endswith(" runs"))
    why = f" because {', '.join(own)}" if own else ""
    return f"{text}, {len(running)} to run{why}"


async def _ask(api: ApiClient, item: Record, found: _Found) -> None:
    answer = await api.action("container_requests", None, "preview", body=item)
    near = answer.get("nearest") or {}
    if answer["decision"] == "reuse":
        # A container of another user is named once the request has it.
        found.reused = answer["container_uuid"] or ""
        found.earlier = answer["container_uuid"]
        found.output = answer["output"]
        return
    found.earlier = near.get("container_uuid")
    found.reason = _reason(answer, item)


def _reason(answer: Mapping[str, Any], item: Mapping[str, Any]) -> str:
    """Reason why a step runs: the reason of a container that cannot be used, or the first
    difference.
    """
    if item.get("use_existing") is False:
        return _NO_REUSE
    for one in answer.get("candidates") or ():
        return f"of the earlier result {one['reason']}"
    differences = (answer.get("nearest") or {}).get("differences") or ()
    for one in differences:
        field = str(one["field"])
        name = field.removeprefix("environment.")
        return f"{name if name != field else f'its {part_of(field)}'} changed"
    return _NEW


def _needed(number: int, item: Mapping[str, Any]) -> list[int]:
    """The numbers of the steps that a step names. Raises Invalid."""
    mounts = (item.get("mounts") or {}).values()
    named = [*(item.get("depends_on") or ()), *(one.get("container_request") for one in mounts)]
    found = []
    for one in named:
        match = _SIBLING.fullmatch(one) if isinstance(one, str) else None
        if match and int(match[1]) >= number:
            raise Invalid(f"step {number}: {one} is not an earlier step")
        if match:
            found.append(int(match[1]))
    return list(dict.fromkeys(found))


def _bound(item: Mapping[str, Any], found: Sequence[_Found]) -> Record:
    """The attributes with contents in place of the outputs of steps that are reused."""
    mounts = {}
    for target, one in (item.get("mounts") or {}).items():
        match = _SIBLING.fullmatch(str(one.get("container_request")))
        if match is None:
            mounts[target] = one
            continue
        path = {"path": one["path"]} if one.get("path") else {}
        output = found[int(match[1])].output
        mounts[target] = {"kind": "collection", "portable_data_hash": output, **path}
    needs = [one for one in item.get("depends_on") or () if not _SIBLING.fullmatch(str(one))]
    return {**item, "mounts": mounts, "depends_on": needs}


async def _with_history(
    api: ApiClient, items: Sequence[Mapping[str, Any]], found: Sequence[_Found]
) -> list[StepPreview]:
    names = [str(item.get("name") or "") for item in items]
    unknown = {name for name, one in zip(names, found, strict=True) if name and not one.earlier}
    latest = await _latest_named(api, sorted(unknown))
    earlier = [one.earlier or latest.get(name) for name, one in zip(names, found, strict=True)]
    containers = {
        one["uuid"]: one
        for one in await _listed(
            api, "containers", "uuid", [one for one in dict.fromkeys(earlier) if one], _FIELDS
        )
    }
    return [
        _step(name or f"step {number}", one, containers.get(uuid or ""))
        for number, (name, one, uuid) in enumerate(zip(names, found, earlier, strict=True))
    ]


def _step(name: str, found: _Found, container: Record | None) -> StepPreview:
    if found.reused is not None:
        return StepPreview(name=name, reused=found.reused, seconds=0.0, cost=0.0)
    seconds, cost = None, None
    if container is not None and container["started_at"] and container["finished_at"]:
        took = parse_time(container["finished_at"]) - parse_time(container["started_at"])
        seconds, cost = took.total_seconds(), float(container["cost"] or 0)
    return StepPreview(name=name, reused=None, reason=found.reason, seconds=seconds, cost=cost)


async def _latest_named(api: ApiClient, names: Sequence[str]) -> dict[str, str]:
    """The container of the latest request of each name that has ended."""
    latest: dict[str, Record] = {}
    fields = ("uuid", "name", "container_uuid", "created_at", "state")
    for one in await _listed(api, "container_requests", "name", names, fields):
        other = latest.get(one["name"])
        is_later = other is None or one["created_at"] > other["created_at"]
        if one["container_uuid"] and one["state"] == "Final" and is_later:
            latest[one["name"]] = one
    return {name: str(one["container_uuid"]) for name, one in latest.items()}


async def _listed(
    api: ApiClient, plural: str, field: str, values: Iterable[str], select: Sequence[str]
) -> list[Record]:
    wanted, found = list(values), list[Record]()
    for start in range(0, len(wanted), _PAGE):
        filters = [[field, "in", wanted[start : start + _PAGE]]]
        async for rows in api.pages(plural, filters=filters, select=select):
            found += rows
    return found
