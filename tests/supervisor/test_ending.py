from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lading.core.containers.container import Container, ContainerState
from lading.core.errors import ExecutionError, Failure, Full
from lading.supervisor.ending import (
    Circumstances,
    Ending,
    failed,
    judge,
    refused_by_kernel,
    runtime_status,
    signal_name,
    stopped_while_saving,
    without_results,
)
from lading.supervisor.engines import Exit
from lading.supervisor.logs import STDERR, Log

CONTAINER = Container(
    uuid="zzzzz-dz642-000000000000001",
    runtime_constraints={"ram": 5},
    scheduling_parameters={"max_run_time": 7},
)


@pytest.mark.parametrize(
    ("exit_", "stopped", "timed_out", "state", "failure"),
    [
        (Exit(code=0), False, False, ContainerState.COMPLETE, None),
        (Exit(code=3), False, False, ContainerState.COMPLETE, None),
        (Exit(code=137, out_of_memory=True), False, False, ContainerState.COMPLETE, Failure.OOM),
        (Exit(code=143), True, False, ContainerState.CANCELLED, None),
        (Exit(code=143), True, True, ContainerState.CANCELLED, Failure.TIMEOUT),
    ],
)
def test_what_an_end_means(
    exit_: Exit, stopped: bool, timed_out: bool, state: ContainerState, failure: Failure | None
) -> None:
    ending = judge(exit_, CONTAINER, Circumstances(stopped=stopped, timed_out=timed_out))
    assert (ending.state, ending.failure) == (state, failure)
    assert ending.exit_code == (None if state is ContainerState.CANCELLED else exit_.code)


@pytest.mark.parametrize(("code", "shown"), [(137, None), (143, None), (9, 9), (0, 0)])
@pytest.mark.parametrize(
    "known",
    [
        Circumstances(stopped=True),
        Circumstances(timed_out=True),
        Circumstances(overfull="the disk"),
    ],
)
def test_a_signal_of_ours_is_no_exit_code(
    code: int, shown: int | None, known: Circumstances
) -> None:
    ending = judge(Exit(code=code), CONTAINER, known)
    assert (ending.state, ending.exit_code) == (ContainerState.CANCELLED, shown)


def test_what_was_lost_with_its_runtime_has_no_result_and_is_the_machines_fault() -> None:
    ending = judge(Exit(code=137, lost="crun was ended by signal 9"), CONTAINER, Circumstances())
    assert (ending.state, ending.failure, ending.exit_code) == (
        ContainerState.CANCELLED,
        Failure.NODE,
        None,
    )
    assert (
        ending.error == "crun was ended by signal 9; the container runs again if its request allows"
    )


def test_a_command_that_survives_the_lack_of_memory_is_warned_about() -> None:
    ending = judge(Exit(code=0, out_of_memory=True), CONTAINER, Circumstances())
    assert (ending.error, ending.failure) == ("", None)
    assert "all of its 5 bytes" in ending.warning


def test_who_was_refused_processes_is_told_the_limit() -> None:
    ending = judge(Exit(code=2, refused_processes=7), CONTAINER, Circumstances())
    assert (ending.state, ending.failure, ending.error) == (ContainerState.COMPLETE, None, "")
    assert "refused it 7 new processes or threads" in ending.warning
    assert "Containers.MaxProcesses" in ending.warning


@pytest.mark.parametrize(
    ("code", "stopped", "failure"), [(0, True, True), (143, False, True), (1, False, False)]
)
def test_who_ends_after_a_notice_was_preempted(code: int, stopped: bool, failure: bool) -> None:
    known = Circumstances(stopped=stopped, preempted="EC2 will terminate this instance")
    ending = judge(Exit(code=code), CONTAINER, known)
    assert ending.failure is (Failure.PREEMPTED if failure else None)
    assert ending.state is (ContainerState.CANCELLED if failure else ContainerState.COMPLETE)


@pytest.mark.parametrize(("code", "failure"), [(0, None), (1, Failure.DISK)])
def test_a_command_that_fails_on_a_full_disk(code: int, failure: Failure | None) -> None:
    ending = judge(Exit(code=code), CONTAINER, Circumstances(full="the disk was full"))
    assert (ending.state, ending.failure) == (ContainerState.COMPLETE, failure)
    assert ("when the disk was full" in ending.error) is bool(failure)


def test_a_failure_keeps_its_class() -> None:
    assert failed(ExecutionError("x", Failure.IMAGE), exit_code=1) == Ending(
        state=ContainerState.CANCELLED, exit_code=1, failure=Failure.IMAGE, error="x"
    )


def test_nothing_is_complete_without_its_results() -> None:
    full, given_back = Full("no room"), Ending(state=ContainerState.QUEUED)
    assert without_results(given_back, full) == given_back
    done = without_results(Ending(state=ContainerState.COMPLETE, exit_code=0), full)
    said = (ContainerState.CANCELLED, 0, Failure.DISK, "its results cannot be saved: no room")
    assert (done.state, done.exit_code, done.failure, done.error) == said
    known = Ending(
        state=ContainerState.COMPLETE, exit_code=1, failure=Failure.OOM, error="out of memory"
    )
    assert without_results(known, full) == Ending(
        state=ContainerState.CANCELLED, exit_code=1, failure=Failure.OOM, error="out of memory"
    )


def test_the_status_keeps_what_the_container_said() -> None:
    ending = Ending(state=ContainerState.CANCELLED, error="e", failure=Failure.USER)
    assert runtime_status(ending, {"activity": "a"}) == {
        "activity": "a",
        "error": "e",
        "failure": "user",
    }
    assert runtime_status(Ending(state=ContainerState.COMPLETE), {"activity": "a"}) is None


@pytest.mark.parametrize(("code", "text"), [(0, ""), (128, ""), (137, " (SIGKILL)"), (255, "")])
def test_signals_are_named(code: int, text: str) -> None:
    assert signal_name(code) == text


def test_an_end_whose_results_nobody_wants() -> None:
    ending = stopped_while_saving(Ending(state=ContainerState.COMPLETE, exit_code=3))
    assert (ending.state, ending.exit_code, ending.failure, ending.error) == (
        ContainerState.CANCELLED,
        3,
        None,
        "",
    )
    assert ending.warning == "cancelled while its output was saved; none of it is kept"
    lost = failed(ExecutionError("x", Failure.NODE))
    assert stopped_while_saving(lost) is lost


def test_who_is_stopped_though_wanted_is_told_and_tried_again() -> None:
    ending = judge(Exit(code=143), CONTAINER, Circumstances(stopped=True, is_wanted=True))
    assert (ending.state, ending.failure, ending.exit_code) == (
        ContainerState.CANCELLED,
        Failure.INFRASTRUCTURE,
        None,
    )
    assert "although its request still needs it" in ending.error


@pytest.mark.parametrize(
    ("also", "failure"),
    [({"preempted": "notice"}, "preempted"), ({"timed_out": True}, "timeout"), ({}, None)],
)
def test_only_a_stop_without_known_reason_is_left_to_the_dispatcher(
    also: dict[str, Any], failure: str | None
) -> None:
    circumstances = Circumstances(stopped=True, is_wanted=True, left=True, **also)
    ending = judge(Exit(code=143), CONTAINER, circumstances)
    assert ending.failure == failure
    state = ContainerState.CANCELLED if failure else ContainerState.RUNNING
    assert ending.state is state


@pytest.mark.parametrize(
    ("code", "said", "shown"),
    [
        (1, "exec container process `/in/x`: Exec format error", 126),
        (1, "exec container process (missing library?) `/x`: No such file or directory", 127),
        (1, "sort: cannot read", 1),
        (1, "exec container process `/in/x`: Exec format error\nand more", 1),
        (2, "exec container process `/in/x`: Exec format error", 2),
        (1, "exec container process `/in/x`: " + "x" * 6000, 1),
        (1, "", 1),
    ],
)
def test_what_the_kernel_refuses_to_execute(
    tmp_path: Path, code: int, said: str, shown: int
) -> None:
    log = Log(tmp_path, lambda: datetime(2026, 1, 2, tzinfo=UTC))
    if said:
        log.stream(STDERR).write(f"{said}\n".encode())
    assert refused_by_kernel(Exit(code=code), log).code == shown
    begin = log.size(STDERR)
    log.stream(STDERR).write(b"exec container process `/x`: Argument list too long\n")
    assert refused_by_kernel(Exit(code=1), log, since=begin).code == 126
    log.close()
