"""The states of an HPC container."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import IllegalTransition
from lading.core.hpc import daemon_states
from lading.core.hpc.daemon_states import CODE_TRANSITIONS, ENDED, ChildPolicy, CodeStatus


def test_all_states_of_the_specification_are_there() -> None:
    assert [*daemon_states.ContainerStatus] == ["Running", "FSError"]
    assert [*CodeStatus] == ["Waiting", "Running", "Stopped", "Killed", "Error"]
    assert [*daemon_states.ResultStatus] == ["Waiting", "Uploading", "Stopped", "Error"]


def test_only_listed_changes_are_made() -> None:
    assert (
        daemon_states.change(CODE_TRANSITIONS, CodeStatus.WAITING, CodeStatus.RUNNING)
        is CodeStatus.RUNNING
    )
    with pytest.raises(IllegalTransition):
        daemon_states.change(CODE_TRANSITIONS, CodeStatus.KILLED, CodeStatus.RUNNING)


@pytest.mark.parametrize(
    ("policy", "direct", "code", "ends"),
    [
        (ChildPolicy.ANY, False, 1, True),
        (ChildPolicy.ANY, True, 1, True),
        (ChildPolicy.ANY, False, 0, False),
        (ChildPolicy.DIRECT, False, 1, False),
        (ChildPolicy.DIRECT, True, 1, True),
        (ChildPolicy.NONE, True, 1, False),
    ],
)
def test_whose_failure_ends_all(policy: ChildPolicy, direct: bool, code: int, ends: bool) -> None:
    assert daemon_states.ends_all(policy, direct=direct, exit_code=code) is ends


def test_a_late_exit_code_does_not_undo_a_kill() -> None:
    assert daemon_states.outcome(killed=True, failed=True, exit_code=3) is CodeStatus.KILLED
    assert daemon_states.outcome(killed=False, failed=False, exit_code=0) is CodeStatus.STOPPED
    assert daemon_states.outcome(killed=False, failed=True, exit_code=0) is CodeStatus.ERROR
    assert daemon_states.outcome(killed=False, failed=False, exit_code=None) is CodeStatus.ERROR


@given(st.booleans(), st.booleans(), st.none() | st.integers(0, 255))
def test_running_code_always_ends_in_an_end(killed: bool, failed: bool, code: int | None) -> None:
    status = daemon_states.outcome(killed=killed, failed=failed, exit_code=code)
    assert status in ENDED
    assert status in CODE_TRANSITIONS[CodeStatus.RUNNING]


def test_signals_are_shown_as_a_shell_does() -> None:
    assert [daemon_states.shell_code(code) for code in (0, 3, -9)] == [0, 3, 137]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42.0),
        (" 7.5\n", 7.5),
        ("-3", 0.0),
        ("1e9", 100.0),
        ("", None),
        ("half", None),
        ("nan", None),
    ],
)
def test_progress_is_clamped_and_garbage_is_nothing(text: str, value: float | None) -> None:
    assert daemon_states.percent(text) == value
