"""Statuses of requests for people."""

from __future__ import annotations

import pytest

from lading.core.containers.container import ContainerState
from lading.core.containers.request_phases import RequestState
from lading.core.request_status import (
    RequestStatus,
    container_status,
    parse_status,
    request_status,
    status_reason,
    status_text,
)


@pytest.mark.parametrize(
    ("request_state", "container_state", "word"),
    [
        ("Uncommitted", None, "draft"),
        ("Uncommitted", "Queued", "draft"),
        ("Committed", None, "waiting"),
        ("Committed", "Queued", "waiting"),
        ("Committed", "Locked", "waiting"),
        ("Committed", "Running", "running"),
        ("Committed", "Complete", "done"),
        ("Committed", "Cancelled", "cancelled"),
        ("Final", None, "cancelled"),
        ("Final", "Queued", "cancelled"),
        ("Final", "Locked", "cancelled"),
        ("Final", "Running", "cancelled"),
        ("Final", "Complete", "done"),
        ("Final", "Cancelled", "cancelled"),
    ],
)
def test_words_of_states(request_state: str, container_state: str | None, word: str) -> None:
    assert request_status(request_state, container_state) == word


def test_every_state_of_the_api_has_a_word() -> None:
    submitted = (RequestState.COMMITTED, RequestState.FINAL)
    words = {request_status(one, held) for one in submitted for held in (None, *ContainerState)}
    assert words == set(RequestStatus) - {RequestStatus.DRAFT, RequestStatus.FAILED}


def test_an_end_without_a_result_has_failed() -> None:
    assert request_status("Final", "Complete", exit_code=5) == "failed"
    assert request_status("Final", "Cancelled", failure="node") == "failed"
    assert container_status("Complete", exit_code=0) == "done"
    assert container_status("Running") == "running"


@pytest.mark.parametrize(
    ("status", "container_state", "priority", "wait", "reason"),
    [
        ("waiting", "Queued", 1, "", ""),
        ("waiting", "Queued", 1, "usage quota", "usage quota"),
        ("waiting", None, 1, "inputs", "inputs"),
        ("waiting", "Queued", 0, "", "on hold"),
        ("waiting", None, 0, "inputs", "on hold"),
        ("waiting", "Locked", 1, "", "starting"),
        ("waiting", "Locked", 0, "", "cancelling"),
        ("running", "Running", 1, "", ""),
        ("running", "Running", 0, "", "cancelling"),
        ("running", "Running", None, "", ""),
        ("failed", "Complete", 1, "", "oom"),
        ("cancelled", None, 0, "", "never ran"),
        ("cancelled", "Cancelled", 0, "", ""),
        ("done", "Complete", 1, "", ""),
    ],
)
def test_reasons(
    status: str, container_state: str | None, priority: int | None, wait: str, reason: str
) -> None:
    told = status_reason(
        RequestStatus(status), container_state, priority=priority, failure="oom", wait=wait
    )
    assert told == reason


def test_a_failure_without_a_class_has_no_reason() -> None:
    assert status_reason(RequestStatus.FAILED, "Complete") == ""
    assert status_reason(RequestStatus.FAILED, "Cancelled", failure="user") == ""


def test_texts() -> None:
    assert status_text(RequestStatus.DONE, exit_code=3) == "done"
    assert status_text(RequestStatus.FAILED, exit_code=137, reason="oom") == "failed 137 (oom)"
    assert status_text(RequestStatus.FAILED) == "failed"
    assert status_text(RequestStatus.WAITING, reason="inputs") == "waiting (inputs)"


def test_names() -> None:
    assert [parse_status(text) for text in ("Complete", "complete", "done")] == ["done"] * 3
    assert parse_status("Running") is RequestStatus.RUNNING
    assert parse_status("Uncommitted") is RequestStatus.DRAFT
    assert parse_status("Queued") is None
