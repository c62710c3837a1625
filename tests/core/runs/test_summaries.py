"""Runs as lists show them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.request_status import RequestStatus
from lading.core.runs import summaries
from lading.core.runs.attempts import RunAttempt
from lading.core.runs.summaries import RunTotals, StepTotals

TIMES = st.none() | st.integers(1, 9).map(str)
ROWS = st.lists(
    st.builds(
        StepTotals,
        status=st.sampled_from(RequestStatus),
        is_reused=st.booleans(),
        number=st.integers(1, 5),
        started_at=TIMES,
        finished_at=TIMES,
        cost=st.integers(0, 9).map(float),
        saved=st.integers(0, 9).map(float),
    )
)
PROJECT: dict[str, Any] = {
    "uuid": "p", "name": "r", "owner_uuid": "u", "created_at": "1", "description": None,
}  # fmt: skip
REQUEST: dict[str, Any] = {
    "uuid": "q", "name": None, "owner_uuid": "u", "created_at": "1", "committed_by_uuid": None,
    "properties": {}, "command": ["arvados-cwl-runner", "w.cwl"], "mounts": {},
}  # fmt: skip


@given(ROWS)
def test_totals(rows: list[StepTotals]) -> None:
    totals = summaries.add_up(iter(rows))
    assert totals.counts.total == sum(row.number for row in rows)
    assert totals.cost == sum(row.cost for row in rows)
    if totals.counts.live:
        assert totals.finished_at is None
    own = [row.started_at for row in rows if row.started_at and not row.is_reused]
    assert totals.started_at == min(own, default=None)


def test_a_project_shows_one_of_its_attempts() -> None:
    first = RunAttempt(number=1, began_at="2", user="u", params={"k": 1})
    second = RunAttempt(number=2)
    shown = summaries.show_project(PROJECT, (first, second), first, RunTotals())
    assert (shown["attempt"], shown["began_at"], shown["params"]) == (1, "2", {"k": 1})
    assert [attempt["number"] for attempt in shown["attempts"]] == [1, 2]
    shown = summaries.show_project(PROJECT, (first, second), second, RunTotals())
    assert shown["began_at"] == "1"


@pytest.mark.parametrize(
    ("changes", "params", "url"),
    [
        ({}, {}, None),
        ({"command": None, "mounts": None}, {}, None),
        (
            {"properties": {"wes": "odd"}, "mounts": {"/var/lib/cwl/cwl.input.json": "odd"}},
            {},
            None,
        ),
        (
            {
                "properties": {"wes": {"workflow_url": "w.cwl"}},
                "mounts": {
                    "/var/lib/cwl/workflow_params.json": {"kind": "json", "content": {"k": 1}}
                },
            },
            {"k": 1},
            "w.cwl",
        ),
    ],
)
def test_the_request_of_a_runner(
    changes: dict[str, Any], params: dict[str, Any], url: str | None
) -> None:
    runner = StepTotals(
        status=RequestStatus.RUNNING, is_reused=False, number=1, started_at="3", cost=1.5
    )
    shown = summaries.show_runner(
        {**REQUEST, **changes}, RequestStatus.RUNNING, runner, RunTotals(cost=2.0)
    )
    assert (shown["params"], shown["source"].get("url")) == (params, url)
    assert (shown["state"], shown["started_at"], shown["cost"]) == ("running", "3", 3.5)
