"""Gangs: which ranks start, when it is over, how it went."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Invalid
from lading.core.hpc import gang
from lading.core.hpc.daemon_states import CodeStatus, ResultStatus
from lading.core.hpc.gang import (
    LOST,
    PATIENCE,
    FailurePolicy,
    Gang,
    GangResult,
    Launcher,
    RankView,
    judge,
)

STOPPED, RUNNING, ERROR, WAITING = (
    CodeStatus.STOPPED,
    CodeStatus.RUNNING,
    CodeStatus.ERROR,
    CodeStatus.WAITING,
)
ANY, NONE = FailurePolicy.ANY, FailurePolicy.NONE


def _view(rank: int, code: CodeStatus, *, started: bool = True, **more: Any) -> RankView:
    return RankView(rank=rank, started=started, code=code, **more)


def test_one_node_is_what_requests_have() -> None:
    assert gang.read_gang({"max_run_time": 0}) == Gang(1, Launcher.MPIRUN, ANY)
    given = {"nodes": 4, "launcher": "all", "rank_failure": "none"}
    assert gang.read_gang(given) == Gang(4, Launcher.ALL, NONE)  # type: ignore[arg-type]
    assert gang.read_gang({"nodes": 4, "share_vcpus": True}).shares_vcpus


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nodes", 0),
        ("nodes", True),
        ("nodes", "4"),
        ("nodes", 10_001),
        ("launcher", "srun"),
        ("rank_failure", []),
        ("share_vcpus", 1),
    ],
)
def test_what_is_no_gang_is_refused(key: str, value: Any) -> None:
    with pytest.raises(Invalid, match=f"\\[{key}\\]"):
        gang.read_gang({key: value})


def test_how_many_and_how_started_makes_another_computation() -> None:
    assert gang.part_of_recipe({"nodes": 1, "launcher": "all"}) == {}
    assert gang.part_of_recipe({"nodes": 2, "rank_failure": "none"}) == {
        "nodes": 2,
        "launcher": "mpirun",
    }


def test_mpirun_is_put_before_what_does_not_bring_it() -> None:
    assert gang.command_line(Launcher.MPIRUN, ["ring"], ranks=4) == ["mpirun", "-np", "4", "ring"]
    assert gang.command_line(Launcher.MPIRUN, ["/usr/bin/mpiexec", "ring"], ranks=4) == [
        "/usr/bin/mpiexec",
        "ring",
    ]
    assert gang.command_line(Launcher.FIRST, ["ring"], ranks=4) == ["ring"]


@pytest.mark.parametrize(
    ("views", "policy", "verdict"),
    [
        ([_view(0, RUNNING), _view(1, WAITING, started=False)], ANY, None),
        ([_view(0, STOPPED), _view(1, RUNNING, started=False)], ANY, GangResult(0)),
        ([_view(0, ERROR, exit_code=3, reason="why")], ANY, GangResult(3, "rank 0 failed: why")),
        (
            [_view(0, RUNNING), _view(1, CodeStatus.KILLED)],
            ANY,
            GangResult(1, "rank 1 failed: exit code 1"),
        ),
        ([_view(0, RUNNING), _view(1, ERROR, exit_code=3)], NONE, None),
        (
            [_view(0, STOPPED), _view(1, ERROR, exit_code=3)],
            NONE,
            GangResult(3, "rank 1 failed: exit code 3"),
        ),
        ([_view(0, RUNNING), _view(1, RUNNING, started=False, silent=PATIENCE + 1)], NONE, None),
    ],
)
def test_when_it_is_over(
    views: list[RankView], policy: FailurePolicy, verdict: GangResult | None
) -> None:
    assert judge(views, policy) == verdict


def test_a_rank_that_does_not_answer_is_lost() -> None:
    lost = _view(1, WAITING, started=False, silent=PATIENCE + 1)
    found = judge([_view(0, RUNNING), lost], ANY)
    assert found is not None
    assert (found.exit_code, found.sentence) == (
        LOST,
        "rank 1 was lost: its daemon has not answered for 20 s",
    )
    assert judge([_view(0, RUNNING, silent=PATIENCE + 1)], NONE) is not None
    assert gang.status_line(lost) == "rank 1 Lost"


@given(
    st.lists(st.sampled_from([STOPPED, ERROR, CodeStatus.KILLED]), min_size=1),
    st.sampled_from([ANY, NONE]),
)
def test_when_all_have_ended_it_is_over(codes: list[CodeStatus], policy: FailurePolicy) -> None:
    found = judge([_view(rank, code) for rank, code in enumerate(codes)], policy)
    assert found is not None
    assert (found.exit_code == 0) == (set(codes) == {STOPPED})


def test_results_are_waited_for_where_they_can_come() -> None:
    busy = _view(0, STOPPED, result=ResultStatus.UPLOADING)
    assert not gang.are_delivered([busy])
    assert not gang.are_delivered([_view(1, WAITING, started=False, result=ResultStatus.UPLOADING)])
    assert gang.are_delivered(
        [_view(0, STOPPED, result=ResultStatus.UPLOADING, silent=PATIENCE + 1)]
    )
    assert gang.are_delivered(
        [_view(0, STOPPED, result=ResultStatus.ERROR), _view(1, WAITING, started=False)]
    )


def test_a_rank_in_a_line() -> None:
    assert gang.status_line(_view(0, RUNNING, percent=41.6)) == "rank 0 Running 42%"
    assert gang.status_line(_view(3, ERROR, reason="exit code 3")) == "rank 3 Error exit code 3"
