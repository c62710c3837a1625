"""The report on a run: facts, tables and warnings; `report_pages` writes it as HTML or Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from lading.core.drawing.gantt import TimelineTask
from lading.core.drawing.layered import Edge
from lading.core.quantities import duration, parse_time, shorten, size
from lading.core.runs.step_groups import (
    RunStep,
    StepGroup,
    failures_of,
    group_steps,
    inputs_of,
    needs_of,
)

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """A titled table; it is left out without rows."""

    title: str
    headings: Row
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedStep:
    """A failure with the last lines that its command wrote."""

    name: str
    uuid: str
    fault: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """A run for people who were not there. `now` is a time in seconds since 1970, as are the times
    of the tasks; `edges` lead from a step to one that needs it.
    """

    title: str
    state: str
    facts: tuple[tuple[str, str], ...]
    failures: tuple[FailedStep, ...]
    tables: tuple[ReportTable, ...]
    warnings: tuple[str, ...]
    groups: tuple[StepGroup, ...]
    edges: tuple[Edge, ...]
    tasks: tuple[TimelineTask, ...]
    now: float


def make_report(
    run: Mapping[str, Any],
    steps: Sequence[RunStep],
    *,
    user: str,
    lines: Mapping[str, Sequence[str]],
    now: float,
    names: Mapping[str, str] | None = None,
) -> RunReport:
    """The report on a run, as the API shows it; `lines` are the last ones of failures, by uuid,
    `names` those of input collections, by content.
    """
    groups = group_steps(steps)
    title = f"{run['name'] or run['uuid']}, attempt {run['attempt']}"
    failures = [
        FailedStep(
            name=step.name, uuid=step.uuid, fault=step.fault, lines=tuple(lines.get(step.uuid, ()))
        )
        for step in failures_of(steps)
    ]
    return RunReport(
        title=title,
        state=str(run["state"]),
        facts=_facts(run, user),
        failures=tuple(failures),
        tables=_tables(run, steps, groups, names or {}),
        warnings=tuple(f"{step.name}: {step.warning}" for step in steps if step.warning),
        groups=groups,
        edges=tuple((need, group.name) for group in groups for need in group.needs),
        tasks=_tasks(steps),
        now=now,
    )


def _tables(
    run: Mapping[str, Any],
    steps: Sequence[RunStep],
    groups: Sequence[StepGroup],
    names: Mapping[str, str],
) -> tuple[ReportTable, ...]:
    return (
        ReportTable(
            title="Parameters",
            headings=("Name", "Value"),
            rows=tuple((name, show_value(value)) for name, value in run["params"].items()),
        ),
        ReportTable(
            title="Inputs",
            headings=("Name", "Content", "Read by"),
            rows=tuple(
                (names.get(read.content, ""), read.content, ", ".join(read.readers))
                for read in inputs_of(steps)
            ),
        ),
        ReportTable(
            title="Steps",
            headings=("Step", "State", "Done", "Reused", "Time of work", "Most memory", "Cost"),
            rows=tuple(_step_row(group) for group in groups),
        ),
        ReportTable(
            title="Versions",
            headings=("Image", "Steps"),
            rows=_images(groups),
        ),
        ReportTable(
            title="Outputs",
            headings=("Step", "Name", "Collection", "Content"),
            rows=tuple(
                (step.group, step.name, step.output_uuid or "", step.output)
                for step in _last_steps(groups)
                if step.output
            ),
        ),
    )


def show_value(value: object) -> str:
    """A parameter as people write it: a text as it is, all else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _facts(run: Mapping[str, Any], user: str) -> tuple[tuple[str, str], ...]:
    counts, source = run["counts"], run["source"]
    numbers = ", ".join(
        f"{counts[name]} {name}"
        for name in ("done", "failed", "cancelled", "running", "waiting", "reused")
        if counts[name]
    )
    facts = (
        ("Run", str(run["uuid"])),
        ("State", str(run["state"])),
        ("Steps", f"{counts['total']}{f': {numbers}' if numbers else ''}"),
        ("Note", str(run["note"])),
        ("By", user),
        ("Begun", _to_second(run["began_at"])),
        ("Ended", _to_second(run["ended_at"])),
        ("Source", ", ".join(f"{name} {show_value(value)}" for name, value in source.items())),
        ("Cost", f"${run['cost']:.2f}; reuse saved ${run['saved']:.2f}"),
    )
    return tuple((name, value) for name, value in facts if value)


def _to_second(timestamp: str | None) -> str:
    """A timestamp of the API to the second."""
    return f"{timestamp[:19].replace('T', ' ')} UTC" if timestamp else ""


def _step_row(group: StepGroup) -> Row:
    counts = group.counts
    memory = max(step.memory for step in group.steps)
    return (
        group.name,
        str(group.state),
        f"{counts.done} of {counts.total}",
        str(counts.reused or ""),
        duration(group.seconds) if group.seconds else "",
        size(memory) if memory else "",
        f"${group.cost:.2f}" if group.cost else "",
    )


def _images(groups: Sequence[StepGroup]) -> tuple[Row, ...]:
    users: dict[str, dict[str, None]] = {}
    for group in groups:
        for step in group.steps:
            if step.image:
                users.setdefault(step.image, {})[group.name] = None
    return tuple((image, ", ".join(names)) for image, names in users.items())


def _last_steps(groups: Sequence[StepGroup]) -> list[RunStep]:
    """The steps whose outputs no other step of the run reads."""
    steps = [step for group in groups for step in group.steps]
    read = {uuid for needs in needs_of(steps).values() for uuid in needs}
    return [step for step in steps if step.uuid not in read]


def _tasks(steps: Sequence[RunStep]) -> tuple[TimelineTask, ...]:
    """The steps on a time line: a reused one at the moment at which it was asked for."""
    needs = needs_of(steps)
    tasks = []
    for step in steps:
        asked = _seconds(step.created_at)
        started, ended = _moment(step.started_at), _moment(step.finished_at)
        if step.is_reused:
            started, ended = asked, asked
        tasks.append(
            TimelineTask(
                key=step.uuid,
                name=shorten(step.name, 60),
                state=str(step.state),
                created=asked,
                started=started,
                ended=ended,
                needs=needs[step.uuid],
                is_reused=step.is_reused,
            )
        )
    return tuple(tasks)


def _moment(moment: str | None) -> float | None:
    return None if moment is None else _seconds(moment)


def _seconds(moment: str) -> float:
    return parse_time(moment).timestamp()
