"""Steps of a run as people see them: requests of one name as one line, in the order of the data.

A step needs another one if it depends on its request, or reads its output by content. A group needs
the groups that its steps need. The groups come in an order in which each follows those that it
needs; circles between groups, as of a name that is used twice, are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lading.core.drawing.layered import layers
from lading.core.drawing.step_names import step_name
from lading.core.ids import EMPTY_PDH
from lading.core.quantities import parse_time
from lading.core.request_status import RequestStatus
from lading.core.runs.attempts import STEP
from lading.core.runs.states import RunCounts, RunState, count_steps, run_state

_NAMELESS: Final = "(no name)"
_BAD: Final = (RequestStatus.FAILED, RequestStatus.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One request of a run. Times are API timestamps, `cost` dollars, `needs` uuids of requests,
    `inputs` and `output` portable data hashes.
    """

    uuid: str
    name: str
    group: str
    state: RequestStatus
    is_reused: bool
    created_at: str
    started_at: str | None
    finished_at: str | None
    container_uuid: str | None
    exit_code: int | None
    fault: str
    command: tuple[str, ...]
    image: str
    needs: tuple[str, ...]
    inputs: tuple[str, ...]
    output: str
    output_uuid: str | None
    cost: float
    memory: int
    """Most bytes that its command used; 0 where that is not known."""
    warning: str
    is_repeated: bool = False
    """Whether it failed, or was cancelled, and was submitted again."""

    @property
    def seconds(self) -> float | None:
        """Seconds that its command took; None for one that has not ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (parse_time(self.finished_at) - parse_time(self.started_at)).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGroup:
    """The requests of one step, in the order of their submission; `needs` are names of groups."""

    name: str
    steps: tuple[RunStep, ...]
    needs: tuple[str, ...]

    @property
    def counts(self) -> RunCounts:
        """Its requests by status."""
        numbers: dict[RequestStatus, int] = {}
        for step in self.steps:
            numbers[step.state] = numbers.get(step.state, 0) + 1
        return count_steps(
            numbers,
            reused=sum(step.is_reused for step in self.steps),
            repeated=[step.state for step in self.steps if step.is_repeated],
        )

    @property
    def state(self) -> RunState:
        """The state of all its requests together."""
        return run_state(self.counts)

    @property
    def seconds(self) -> float:
        """Seconds of work of its own containers."""
        return sum(step.seconds or 0.0 for step in self.steps if not step.is_reused)

    @property
    def cost(self) -> float:
        """Dollars of its own containers."""
        return sum(step.cost for step in self.steps if not step.is_reused)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """A content from outside of a run: its portable data hash, and the names of the steps that read
    it.
    """

    content: str
    readers: tuple[str, ...]


def read_step(item: Mapping[str, Any]) -> RunStep:
    """A step from an item of `run_steps`."""
    status = _object(item, "runtime_status")
    command = _texts(item, "command")
    name = _name_of(item, command)
    named = _object(item, "properties").get(STEP)
    state = RequestStatus(item["state"])
    return RunStep(
        uuid=str(item["uuid"]),
        name=name,
        group=named if isinstance(named, str) and named else step_name(name),
        state=state,
        is_reused=bool(item["is_reused"]),
        created_at=str(item["created_at"]),
        started_at=item.get("started_at"),
        finished_at=item.get("finished_at"),
        container_uuid=item.get("container_uuid"),
        exit_code=item.get("exit_code"),
        fault=_fault_of(item, status) if state in _BAD else "",
        command=command,
        image=_text(item, "container_image"),
        needs=_texts(item, "depends_on"),
        inputs=_texts(item, "inputs"),
        output=_text(item, "output"),
        output_uuid=item.get("output_uuid"),
        cost=float(item.get("cost") or 0),
        memory=int(_object(item, "usage").get("memory") or 0),
        warning=_text(status, "warning"),
        is_repeated=bool(item.get("is_repeated")),
    )


def _name_of(item: Mapping[str, Any], command: tuple[str, ...]) -> str:
    program = command[0].rpartition("/")[2] if command else ""
    return str(item["name"] or program or _NAMELESS)


def _fault_of(item: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    exit_code = item.get("exit_code")
    return _text(status, "error") or (f"exit code {exit_code}" if exit_code else "")


def _text(item: Mapping[str, Any], name: str) -> str:
    return str(item.get(name) or "")


def _texts(item: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(map(str, item.get(name) or ()))


def _object(item: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = item.get(name)
    return value if isinstance(value, Mapping) else {}


def needs_of(steps: Sequence[RunStep]) -> dict[str, tuple[str, ...]]:
    """The uuids of the steps that each step needs, by its uuid: itself and strangers left out."""
    uuids = {step.uuid for step in steps}
    makers = {
        step.output: step.uuid
        for step in reversed(steps)
        if step.output and step.output != EMPTY_PDH
    }
    needs: dict[str, tuple[str, ...]] = {}
    for step in steps:
        read = (makers[content] for content in step.inputs if content in makers)
        asked = (uuid for uuid in step.needs if uuid in uuids)
        needs[step.uuid] = tuple(
            uuid for uuid in dict.fromkeys((*asked, *read)) if uuid != step.uuid
        )
    return needs


def inputs_of(steps: Sequence[RunStep]) -> tuple[RunInput, ...]:
    """The contents that steps read and none of them made, in the order of their first readers."""
    made = {step.output for step in steps}
    readers: dict[str, dict[str, None]] = {}
    for step in steps:
        for content in step.inputs:
            if content not in made and content != EMPTY_PDH:
                readers.setdefault(content, {})[step.group] = None
    return tuple(
        RunInput(content=content, readers=tuple(names)) for content, names in readers.items()
    )


def group_steps(steps: Sequence[RunStep]) -> tuple[StepGroup, ...]:
    """The groups of a run, each after those that it needs as far as there is no circle."""
    group_of = {step.uuid: step.group for step in steps}
    members: dict[str, list[RunStep]] = {}
    for step in steps:
        members.setdefault(step.group, []).append(step)
    needs = _needs_of_groups(steps, group_of)
    edges = [(before, name) for name, some in needs.items() for before in some]
    layer_of = {
        name: number for number, layer in enumerate(layers(list(members), edges)) for name in layer
    }
    order = {name: number for number, name in enumerate(members)}
    return tuple(
        StepGroup(
            name=name,
            steps=tuple(members[name]),
            # What closes a circle is in no earlier layer.
            needs=tuple(before for before in needs[name] if layer_of[before] < layer_of[name]),
        )
        for name in sorted(members, key=lambda name: (layer_of[name], order[name]))
    )


def _needs_of_groups(
    steps: Sequence[RunStep], group_of: Mapping[str, str]
) -> dict[str, dict[str, None]]:
    """The other groups that each group needs, in the order of its steps, as keys."""
    needs: dict[str, dict[str, None]] = {group: {} for group in group_of.values()}
    for uuid, needed in needs_of(steps).items():
        for source in needed:
            if group_of[source] != group_of[uuid]:
                needs[group_of[uuid]][group_of[source]] = None
    return needs


def tree_of(groups: Sequence[StepGroup]) -> Iterator[tuple[int, StepGroup]]:
    """The groups with their depth, each below the last of those that it needs."""
    below: dict[str, list[StepGroup]] = {}
    order = {group.name: number for number, group in enumerate(groups)}
    for group in groups:
        parent = max(group.needs, key=lambda name: order[name], default="")
        below.setdefault(parent, []).append(group)
    ahead = [(0, group) for group in reversed(below.get("", ()))]
    while ahead:
        depth, group = ahead.pop()
        yield depth, group
        ahead += [(depth + 1, child) for child in reversed(below.get(group.name, ()))]


def failures_of(steps: Iterable[RunStep]) -> list[RunStep]:
    """The steps that failed and were not submitted again, the first to end first."""
    failed = [step for step in steps if step.state is RequestStatus.FAILED and not step.is_repeated]
    return sorted(failed, key=lambda step: (step.finished_at or "~", step.created_at))
