"""The page of one run: its failures first, its steps by name, its parameters and attempts; actions
on the whole run.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup
from starlette.responses import Response

from lading.client.run_records import reading
from lading.core.errors import LadingError
from lading.core.request_status import RequestStatus
from lading.core.runs.states import RunOutcome
from lading.core.runs.step_groups import (
    RunStep,
    StepGroup,
    failures_of,
    group_steps,
    inputs_of,
    tree_of,
)
from lading.process.concurrency import together
from lading.web.live_updates import RUNS
from lading.web.runs import rows
from lading.web.runs.reading import RunView, read_view, reference_of
from lading.web.runs.rows import BarShare
from lading.web.visit import Visit

_SHOWN: Final = 5
"""Failures whose last lines are shown."""
_LINES, _FEW_LINES = 12, 5
"""Lines of a failure: of one or two, and of each of several."""
_MOST_GROUPS: Final = 200
_MOST_INPUTS: Final = 20
_AT_ONCE: Final = 8
"""Calls at a time; the server takes writes one after another."""
_LIVE: Final = (RequestStatus.WAITING, RequestStatus.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """The requests of one step as a row of the tree; `depth` from 0."""

    depth: int
    group: StepGroup
    shares: tuple[BarShare, ...]
    summary: str

    @property
    def bar(self) -> Markup:
        """The bar of its requests."""
        return rows.draw_bar(self.shares, self.summary)


async def show(visit: Visit) -> Response:
    """The page."""
    view = await read_view(visit)
    values: dict[str, Any] = {}

    async def read_values() -> None:
        values.update(await _values(visit, view))

    async def read_inputs() -> None:
        values.update(await _inputs(visit, view))

    await together(read_values(), read_inputs())
    return visit.page(
        "run.html",
        **values,
        topics=RUNS if view.is_live else "",
        said=visit.query("said"),
        rerun=f"lading runs rerun {view.uuid}",
    )


async def refresh(visit: Visit) -> Response:
    """Its part that changes."""
    return visit.page("run_state.html", **await _values(visit, await read_view(visit)))


async def cancel(visit: Visit) -> Response:
    """Cancel the steps that wait or run, the last ones first, so that none begins in place of one
    that was cancelled.
    """
    reference = reference_of(visit)
    if reference.plural == "container_requests":
        # With its container it cancels all that that asked for.
        await visit.api.action(reference.plural, reference.uuid, "cancel")
        return visit.redirect(f"/ui/runs/{reference.uuid}?said=cancelled")
    steps = await reading.read_steps(visit.api, reference)
    turns = asyncio.Semaphore(_AT_ONCE)

    async def cancel_step(step: RunStep) -> None:
        async with turns:
            try:
                await visit.api.action("container_requests", step.uuid, "cancel")
            except LadingError as error:
                # It has ended since, or is gone: the others are cancelled all the same.
                if error.status not in (404, 409, 422):
                    raise

    await together(*(cancel_step(step) for step in reversed(steps) if step.state in _LIVE))
    await reading.end(
        visit.api,
        reference.uuid,
        attempt=reference.attempt,
        outcome=str(RunOutcome.CANCELLED),
        note="cancelled by its user",
    )
    return visit.redirect(f"/ui/runs/{reference.uuid}?said=cancelled")


async def _values(visit: Visit, view: RunView) -> dict[str, Any]:
    failures = failures_of(view.steps)
    lines: dict[str, list[str]] = {}
    most = _LINES if len(failures) < 3 else _FEW_LINES

    async def read_lines(step: RunStep) -> None:
        lines[step.uuid] = await reading.last_lines(visit.api, step, most=most)

    await together(*(read_lines(step) for step in failures[:_SHOWN]))
    groups = group_steps(view.steps)
    tree = [
        GroupRow(
            depth=depth,
            group=group,
            shares=rows.bar_shares(group.counts.shown()),
            summary=rows.summary_of(group.counts.shown(), "request"),
        )
        for depth, group in tree_of(groups)
    ]
    params = view.record["params"]
    return {
        "view": view,
        "run": view.record,
        "row": view.row,
        "failures": [(step, lines[step.uuid]) for step in failures[:_SHOWN]],
        "failure_count": len(failures),
        "tree": tree[:_MOST_GROUPS],
        "left_out": max(0, len(tree) - _MOST_GROUPS),
        "params": [(name, rows.shown_value(value)) for name, value in params.items()],
        "source": [
            (name, rows.shown_value(value)) for name, value in view.record["source"].items()
        ],
    }


async def _inputs(visit: Visit, view: RunView) -> dict[str, Any]:
    """The contents that no step made, with the names of their collections."""
    inputs = inputs_of(view.steps)
    shown = inputs[:_MOST_INPUTS]
    names: dict[str, str] = {}
    # A token of limited scope reads no collections, which is no reason not to show the run.
    with suppress(LadingError):
        names = await reading.input_names(visit.api, [entry.content for entry in shown])
    return {
        "inputs": [
            (entry.content, names.get(entry.content, ""), ", ".join(entry.readers))
            for entry in shown
        ],
        "inputs_left_out": len(inputs) - len(shown),
    }
