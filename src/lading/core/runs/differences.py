"""Differences of two runs, step by step, and their first cause.

Steps are paired by their step and name; of several with one name, by their order. A step differs by
itself if its command, its image or an input from outside of the run is another, or if the same
recipe gave another output. An input that differing steps made is no difference of its own. The
first cause is the first step, in the order of the data, that differs by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lading.core.request_status import RequestStatus
from lading.core.runs.step_groups import RunStep, group_steps


class StepReason(StrEnum):
    """Why a step differs by itself."""

    COMMAND = "command"
    IMAGE = "image"
    INPUT = "input"
    OUTPUT = "same recipe, other output"
    STATE = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChange:
    """A named value of both runs; None where a run has none."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChange:
    """A step of both runs that differs; `reasons` is empty where earlier steps are the cause."""

    before: RunStep
    after: RunStep
    reasons: tuple[StepReason, ...]

    @property
    def has_other_output(self) -> bool:
        """Whether both have an output, and these differ."""
        outputs = (self.before.output, self.after.output)
        return all(outputs) and outputs[0] != outputs[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Differences of two runs, the steps in the order of the data."""

    params: tuple[ValueChange, ...]
    source: tuple[ValueChange, ...]
    changes: tuple[StepChange, ...]
    only_before: tuple[RunStep, ...]
    only_after: tuple[RunStep, ...]
    equal: int
    """Steps without a difference."""

    @property
    def first(self) -> StepChange | None:
        """The first step that differs by itself."""
        return next((change for change in self.changes if change.reasons), None)


def compare_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[ValueChange, ...]:
    """The values that differ, by name."""
    return tuple(
        ValueChange(name=name, before=before.get(name), after=after.get(name))
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    )


def compare_runs(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    before_steps: Sequence[RunStep],
    after_steps: Sequence[RunStep],
) -> RunComparison:
    """The differences of two runs, as the API shows them, with their steps."""
    earlier, later = _keyed(before_steps), _keyed(after_steps)
    pairs = [(earlier[key], step) for key, step in later.items() if key in earlier]
    other_outputs = {step.output for old, step in pairs if step.output != old.output}
    # A step of one run alone makes inputs that the other run has not.
    other_outputs |= {step.output for key, step in later.items() if key not in earlier}
    changes = [
        StepChange(before=old, after=step, reasons=tuple(_reasons(old, step, other_outputs)))
        for old, step in pairs
        if _differs(old, step)
    ]
    return RunComparison(
        params=compare_values(before["params"], after["params"]),
        source=compare_values(before["source"], after["source"]),
        changes=tuple(changes),
        only_before=tuple(step for key, step in earlier.items() if key not in later),
        only_after=tuple(step for key, step in later.items() if key not in earlier),
        equal=len(pairs) - len(changes),
    )


def _keyed(steps: Sequence[RunStep]) -> dict[tuple[str, str, int], RunStep]:
    """The steps in the order of the data, by step, name and number among those of that name."""
    numbers: dict[tuple[str, str], int] = {}
    keyed: dict[tuple[str, str, int], RunStep] = {}
    for group in group_steps(steps):
        for step in group.steps:
            number = numbers[group.name, step.name] = numbers.get((group.name, step.name), -1) + 1
            keyed[group.name, step.name, number] = step
    return keyed


def _differs(before: RunStep, after: RunStep) -> bool:
    return _recipe(before) != _recipe(after) or (before.output, before.state) != (
        after.output,
        after.state,
    )


def _recipe(step: RunStep) -> tuple[object, ...]:
    return step.command, step.image, step.inputs


def _reasons(before: RunStep, after: RunStep, other_outputs: set[str]) -> Iterator[StepReason]:
    if before.command != after.command:
        yield StepReason.COMMAND
    # A step that never had a container has neither an image nor inputs.
    if before.image and after.image:
        if before.image != after.image:
            yield StepReason.IMAGE
        if set(after.inputs) - set(before.inputs) - other_outputs:
            yield StepReason.INPUT
    if _recipe(before) == _recipe(after):
        if before.output and after.output and before.output != after.output:
            yield StepReason.OUTPUT
        elif before.state != after.state and RequestStatus.FAILED in (before.state, after.state):
            yield StepReason.STATE
