"""A run as lists and pages show it: one object, from its record and the totals of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lading.core.request_status import RequestStatus
from lading.core.runs.attempts import RunAttempt
from lading.core.runs.states import RunCounts, count_steps, run_state, state_with_runner

_CWL: Final = "CWL"
CWL_INPUTS: Final = ("/var/lib/cwl/workflow_params.json", "/var/lib/cwl/cwl.input.json")
"""Mounts of the request of a CWL runner that may have its input object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTotals:
    """Steps of a run with one status: their number, first start and last end (API timestamps, None
    without one), and dollars that they cost and that reuse saved.
    """

    status: RequestStatus
    is_reused: bool
    number: int
    started_at: str | None = None
    finished_at: str | None = None
    cost: float = 0.0
    saved: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTotals:
    """All steps of a run together."""

    counts: RunCounts = field(default_factory=RunCounts)
    started_at: str | None = None
    finished_at: str | None = None
    cost: float = 0.0
    saved: float = 0.0


def add_up(rows: Iterable[StepTotals], repeated: Iterable[RequestStatus] = ()) -> RunTotals:
    """The totals of a run. It has a last end once no step waits or runs. `repeated` has the
    statuses of steps that were submitted again, which cost what they cost.
    """
    rows = tuple(rows)
    numbers: dict[RequestStatus, int] = {}
    for row in rows:
        numbers[row.status] = numbers.get(row.status, 0) + row.number
    reused = sum(row.number for row in rows if row.is_reused)
    counts = count_steps(numbers, reused=reused, repeated=repeated)
    # The result of an earlier container is older than the run.
    starts = [row.started_at for row in rows if row.started_at and not row.is_reused]
    ends = [row.finished_at for row in rows if row.finished_at and not row.is_reused]
    return RunTotals(
        counts=counts,
        started_at=min(starts, default=None),
        finished_at=None if counts.live else max(ends, default=None),
        cost=sum(row.cost for row in rows),
        saved=sum(row.saved for row in rows),
    )


def show_project(
    project: Mapping[str, Any], attempts: Sequence[RunAttempt], shown: RunAttempt, totals: RunTotals
) -> dict[str, Any]:
    """A run that is a project: `shown` is the attempt that is told of."""
    return {
        **_common(project, totals),
        "kind": "project",
        "description": project.get("description"),
        "state": str(run_state(totals.counts, shown.outcome)),
        "attempt": shown.number,
        "attempts": [
            {"number": attempt.number, "began_at": attempt.began_at, "user": attempt.user}
            for attempt in attempts
        ],
        "user_uuid": shown.user,
        "began_at": shown.began_at or project["created_at"],
        "ended_at": shown.ended_at or totals.finished_at,
        "params": shown.params,
        "source": shown.source,
        "note": shown.note,
    }


def show_runner(
    request: Mapping[str, Any], status: RequestStatus, runner: StepTotals, totals: RunTotals
) -> dict[str, Any]:
    """A run that the container of a request carries out, as arvados-cwl-runner does; `runner` is
    the request itself, which is none of its steps.
    """
    wes = request["properties"].get("wes")
    origin = wes.get("workflow_url") if isinstance(wes, Mapping) else None
    command = request.get("command") or []
    source: dict[str, Any] = {"kind": _CWL, "program": command[0] if command else ""}
    if origin:
        source["url"] = origin
    return {
        **_common(request, totals),
        "kind": "workflow",
        "description": request.get("description"),
        "state": str(state_with_runner(totals.counts, status)),
        "attempt": 1,
        "attempts": [
            {
                "number": 1,
                "began_at": request["created_at"],
                "user": request["committed_by_uuid"] or "",
            }
        ],
        "user_uuid": request["committed_by_uuid"] or "",
        "began_at": request["created_at"],
        "ended_at": runner.finished_at,
        "started_at": runner.started_at,
        "finished_at": runner.finished_at,
        "params": _cwl_params(request),
        "source": source,
        "note": "",
        "cost": totals.cost + runner.cost,
    }


def _common(record: Mapping[str, Any], totals: RunTotals) -> dict[str, Any]:
    return {
        "uuid": record["uuid"],
        "name": record["name"] or "",
        "owner_uuid": record["owner_uuid"],
        "counts": totals.counts.shown(),
        "progress": totals.counts.progress,
        "started_at": totals.started_at,
        "finished_at": totals.finished_at,
        "cost": totals.cost,
        "saved": totals.saved,
    }


def _cwl_params(request: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a CWL workflow, as its request mounts them; {} if they are elsewhere."""
    mounts = request.get("mounts") or {}
    for target in CWL_INPUTS:
        mount = mounts.get(target)
        content = mount.get("content") if isinstance(mount, Mapping) else None
        if isinstance(content, dict):
            return content
    return {}
