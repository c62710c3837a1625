"""A run compared with another one, or with an attempt: parameters, code, steps, the first cause."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from lading.client.api import Record
from lading.client.run_records import reading
from lading.client.run_records.reading import RunReference
from lading.core.errors import LadingError, TooLarge
from lading.core.runs.differences import (
    RunComparison,
    StepChange,
    StepReason,
    ValueChange,
    compare_runs,
)
from lading.core.runs.states import RunState
from lading.core.runs.step_groups import RunStep
from lading.process.concurrency import together
from lading.web.runs import rows
from lading.web.runs.reading import RunView, read_view, shown_step_state
from lading.web.visit import Visit

_MOST_STEPS: Final = 10_000
"""Requests of a run that is compared here; the command line compares larger ones."""
_MOST_ROWS: Final = 200
"""Rows of each table."""
_TRIED: Final = 5
"""Earlier attempts that are looked at for one without failures."""
_SUGGESTED: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """A step that differs. `details` are values that differ: (name, before, after)."""

    change: StepChange
    reasons: str
    output: str
    state: str
    details: tuple[tuple[str, str, str], ...]


async def show(visit: Visit) -> Response:
    """The page. Without `with` the run is compared with its last good attempt."""
    view = await read_view(visit)
    asked = visit.query("with").strip()[:300]
    fault, status, values = "", 200, dict[str, Any]()
    try:
        before = await reading.find_run(visit.api, asked) if asked else await find_good(visit, view)
        if before is not None:
            values = await _values(visit, view, before)
    except LadingError as error:
        if error.status >= 500:
            raise
        fault, status = error.message, error.status
    return visit.page(
        "run_compare.html",
        status=status,
        view=view,
        run=view.record,
        row=view.row,
        asked=asked,
        fault=fault,
        suggestions=await _suggestions(visit, view),
        **{"before": None, **values},
    )


async def find_good(visit: Visit, view: RunView) -> RunReference | None:
    """The last attempt before this one that is done, else the last run before it of the same name
    that is; else the attempt before; None without any.
    """
    run = view.record
    numbers = [each["number"] for each in run["attempts"] if each["number"] < run["attempt"]]
    for number in numbers[: -_TRIED - 1 : -1]:
        reference = RunReference(uuid=view.uuid, attempt=number)
        if (await reading.read_run(visit.api, reference))["state"] == RunState.DONE:
            return reference
    if run["name"]:
        runs = await reading.list_runs(
            visit.api, limit=_SUGGESTED, name=run["name"], state=str(RunState.DONE)
        )
        for candidate in runs:
            is_same = (candidate["name"], candidate["kind"]) == (run["name"], run["kind"])
            if (
                is_same
                and candidate["uuid"] != view.uuid
                and candidate["began_at"] < run["began_at"]
            ):
                return RunReference(uuid=str(candidate["uuid"]))
    return RunReference(uuid=view.uuid, attempt=numbers[-1]) if numbers else None


async def _values(visit: Visit, view: RunView, before: RunReference) -> dict[str, Any]:
    """Values of the page that compares both runs. Raises NotFound, TooLarge."""
    records: list[Record] = []
    steps: list[RunStep] = []

    async def read_record() -> None:
        records.append(await reading.read_run(visit.api, before))

    async def read_steps() -> None:
        steps.extend(await reading.read_steps(visit.api, before))

    await together(read_record(), read_steps())
    if max(len(steps), len(view.steps)) > _MOST_STEPS:
        raise TooLarge(
            f"a run has more than {_MOST_STEPS:,} requests; compare it by 'lading runs diff'"
        )
    [earlier] = records
    [row] = await rows.make_rows(visit, records)
    comparison = compare_runs(earlier, view.record, steps, view.steps)
    first = comparison.first
    return {
        "before": earlier,
        "before_row": row,
        "before_place": _run_address(earlier),
        "first": _row(first) if first else None,
        "is_equal": _is_equal(comparison),
        "values": (
            ("params", "Parameters", _shown(comparison.params)),
            ("source", "Code", _shown(comparison.source)),
        ),
        "changes": [_row(change) for change in comparison.changes[:_MOST_ROWS]],
        "change_count": len(comparison.changes),
        "alone": (
            ("only-before", "Steps of the earlier one alone", *_some(comparison.only_before)),
            ("only-after", "Steps of this one alone", *_some(comparison.only_after)),
        ),
        "equal": comparison.equal,
    }


async def _suggestions(visit: Visit, view: RunView) -> list[tuple[str, str]]:
    """Attempts of this run, and the runs that began last: (what the field takes, label)."""
    run = view.record
    attempts = [
        (f"{view.uuid}#{each['number']}", f"{view.row.name}, attempt {each['number']}")
        for each in reversed(run["attempts"])
        if each["number"] != run["attempt"]
    ]
    runs: list[Record] = []
    # Any run can be typed: the page is shown without suggestions too.
    with suppress(LadingError):
        runs = await reading.list_runs(visit.api, limit=_SUGGESTED)
    others = [
        (str(each["uuid"]), f"{each['name'] or each['uuid']}, {each['state']}")
        for each in runs
        if each["uuid"] != view.uuid
    ]
    return [*attempts, *others]


def _run_address(run: Record) -> str:
    query = f"?attempt={run['attempt']}" if len(run["attempts"]) > 1 else ""
    return f"/ui/runs/{run['uuid']}{query}"


def _is_equal(comparison: RunComparison) -> bool:
    return not (comparison.changes or comparison.only_before or comparison.only_after)


def _shown(changes: Sequence[ValueChange]) -> list[tuple[str, str, str]]:
    """Values that differ: (name, before, after)."""
    return [
        (change.name, _shown_value(change.before), _shown_value(change.after))
        for change in changes[:_MOST_ROWS]
    ]


def _shown_value(value: object) -> str:
    return "" if value is None else rows.shown_value(value)


def _some(steps: Sequence[RunStep]) -> tuple[list[tuple[RunStep, str]], int]:
    """The first of some steps with their states, and the number of all."""
    return [(step, shown_step_state(step)) for step in steps[:_MOST_ROWS]], len(steps)


def _row(change: StepChange) -> ChangeRow:
    output = "another" if change.has_other_output else "same" if change.after.output else "none"
    return ChangeRow(
        change=change,
        reasons=", ".join(change.reasons) or "an earlier step",
        output=output,
        state=shown_step_state(change.after),
        details=tuple(_details(change)),
    )


def _details(change: StepChange) -> Iterator[tuple[str, str, str]]:
    before, after = change.before, change.after
    if StepReason.COMMAND in change.reasons:
        yield "command", shlex.join(before.command), shlex.join(after.command)
    if StepReason.IMAGE in change.reasons:
        yield "image", before.image, after.image
    if StepReason.INPUT in change.reasons:
        old = [content for content in before.inputs if content not in after.inputs]
        new = [content for content in after.inputs if content not in before.inputs]
        yield "inputs", ", ".join(old), ", ".join(new)
    if StepReason.OUTPUT in change.reasons:
        yield "output", before.output, after.output
    if StepReason.STATE in change.reasons:
        yield (
            "state",
            f"{before.state} {before.fault}".rstrip(),
            f"{after.state} {after.fault}".rstrip(),
        )
