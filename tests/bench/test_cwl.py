"""Which cases of CWL are measured, and what is said of their time."""

from __future__ import annotations

from bench.cwl import CASES, _Runner
from tests.cwl.runs import LOCAL
from tests.cwl.table import read_cases


def test_twenty_different_cases_of_the_table_are_measured() -> None:
    assert len(set(CASES)) == 20
    assert set(CASES) <= {case["id"] for case in read_cases()}


def test_a_runner_has_the_time_of_a_case_and_the_rate_of_a_round() -> None:
    runner = _Runner("runner", LOCAL, rounds=[40.0], cases=[14.0, 15.0, 26.0], processor=[3.0])
    one, many = runner.figures(20)
    assert (one.p50, one.p99) == (15000.0, 26000.0)
    assert (many.rate, many.client, many.name) == (0.5, 3000.0, "runner, 20 cases, 16 at a time")
