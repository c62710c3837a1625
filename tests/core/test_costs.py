"""The cost report: each container counted once, savings, losses, groups."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers.container import Container
from lading.core.costs import CostedRequest, CostGroup, CostLine, report, tool_name
from tests.records import make_container

DONE: dict[str, Any] = {"state": "Complete", "exit_code": 0}
LOST: dict[str, Any] = {"state": "Cancelled", "runtime_status": {"failure": "preempted"}}


def ran(number: int, at: int, cost: float, **changes: Any) -> Container:
    given = {"created_at": f"2026-01-{at:02d}", "finished_at": f"2026-01-{at + 1:02d}T00", **DONE}
    return make_container(number, **{**given, "cost": cost, **changes})


def asked(number: int, at: int, *containers: Container, **changes: Any) -> CostedRequest:
    values: dict[str, Any] = {
        "uuid": f"r{number}",
        "created_at": f"2026-01-{at:02d}",
        "project": "p",
        "user": "u",
        "charged": 1.0,
        **changes,
    }
    return CostedRequest(containers=containers, **values)


def test_what_was_spent_saved_and_lost() -> None:
    first = ran(2, 3, 1.5, subrequests_cost=8.0)
    requests = [
        asked(1, 1, ran(1, 1, 0.25, **LOST), first),
        asked(2, 4, first, charged=0.0),
        asked(3, 5, ran(3, 5, 0.5, exit_code=1)),
        asked(4, 6, ran(4, 6, 0.125, state="Cancelled")),
        asked(5, 7, ran(5, 7, 0.0, state="Running")),
        asked(6, 8),
    ]
    found = report(requests, by=CostGroup.PROJECT)
    assert (
        found.total
        == found.groups["p"]
        == CostLine(
            requests=6,
            spent=2.375,
            saved_by_reuse=9.5,
            lost_to_preemption=0.25,
            lost_to_failures=0.5,
            lost_to_cancellation=0.125,
        )
    )
    assert found.total.shown()["spent"] == 2.375


def test_a_shared_container_is_counted_once_and_one_that_failed_saves_nothing() -> None:
    shared, failed = ran(1, 3, 2.0), ran(2, 3, 1.0, exit_code=1)
    requests = [asked(number, 1, shared, failed) for number in (1, 2)]
    total = report(requests, by=CostGroup.USER).total
    assert (total.spent, total.saved_by_reuse, total.lost_to_failures) == (3.0, 2.0, 1.0)


def test_an_older_draft_does_not_pay_for_what_it_found() -> None:
    shared = ran(1, 3, 2.0)
    draft, maker = asked(1, 1, shared, charged=0.0, user="d"), asked(2, 2, shared, user="m")
    groups = report([draft, maker], by=CostGroup.USER).groups
    assert (groups["m"].spent, groups["d"].spent, groups["d"].saved_by_reuse) == (2.0, 0.0, 2.0)


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        (CostGroup.PROJECT, ["q", "p"]),
        (CostGroup.USER, ["v", "u"]),
        (CostGroup.TOOL, ["sort", "", "echo"]),
        (CostGroup.DAY, ["2026-01-02", "2026-01-03", "2026-01-05"]),
    ],
)
def test_groups_are_the_dearest_first_and_days_in_order(by: CostGroup, keys: list[str]) -> None:
    requests = [
        asked(1, 1, ran(1, 1, 1.0)),
        asked(2, 2, ran(2, 2, 3.0, command=["/bin/sort", "x"]), project="q", user="v"),
        asked(3, 5, ran(3, 5, 2.0, command=[], finished_at=None), project="q", user="v"),
    ]
    assert list(report(requests, by=by).groups) == keys


def test_the_name_of_a_tool() -> None:
    assert tool_name(make_container(command=["/usr/bin/bwa", "mem"])) == "bwa"
    assert tool_name(make_container(command=[])) == ""


_CENTS = st.integers(0, 10**6)


@given(st.lists(st.tuples(_CENTS, st.booleans(), st.integers(0, 2)), max_size=12))
def test_groups_add_up_to_the_total(runs: list[tuple[int, bool, int]]) -> None:
    requests = [
        asked(
            number,
            1,
            ran(number, 2, cents / 100, exit_code=int(failed)),
            project=f"p{where}",
        )
        for number, (cents, failed, where) in enumerate(runs)
    ]
    found = report(requests, by=CostGroup.PROJECT)
    assert round(found.total.spent * 100) == sum(cents for cents, _, _ in runs)
    lost = sum(cents for cents, failed, _ in runs if failed)
    assert round(found.total.lost_to_failures * 100) == lost
    assert round(sum(one.spent for one in found.groups.values()) * 100) == round(
        found.total.spent * 100
    )
    assert sum(one.requests for one in found.groups.values()) == len(runs)
