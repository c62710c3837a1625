"""Steps that were submitted again."""

from __future__ import annotations

from typing import Any

from lading.core.request_status import RequestStatus
from lading.core.runs.resubmission import SubmittedStep, repeated_steps


def step(uuid: str, status: str, **more: Any) -> SubmittedStep:
    known = {"name": "align", "command": ["align"], "environment": {}, "mounts": {}}
    return SubmittedStep(uuid=uuid, status=RequestStatus(status), **{**known, **more})


def test_a_failure_counts_until_it_is_repeated() -> None:
    assert repeated_steps([step("1", "failed")]) == {}
    assert repeated_steps([step("1", "failed"), step("2", "done")]) == {"1": RequestStatus.FAILED}
    assert set(
        repeated_steps([step("1", "failed"), step("2", "failed"), step("3", "running")])
    ) == {
        "1",
        "2",
    }
    # Run again after it was done: the failure is the last word.
    assert repeated_steps([step("1", "done"), step("2", "failed")]) == {}


def test_another_sample_hides_no_failure() -> None:
    others: tuple[dict[str, Any], ...] = (
        {"name": "b"}, {"command": ["align", "2"]}, {"environment": {"S": "2"}},
        {"mounts": {"/in": {"kind": "collection", "portable_data_hash": "x"}}}, {"mounts": None},
    )  # fmt: skip
    for other in others:
        assert repeated_steps([step("1", "failed"), step("2", "done", **other)]) == {}


def test_what_needs_a_repeated_step_is_repeated_with_it() -> None:
    def reading(uuid: str) -> dict[str, Any]:
        return {"name": "count", "mounts": {"/in": {"kind": "output", "container_request": uuid}}}

    steps = [
        step("1", "failed"), step("2", "cancelled", **reading("1")), step("3", "done"),
        step("4", "done", **reading("3")), step("5", "cancelled", **reading("9")),
    ]  # fmt: skip
    assert set(repeated_steps(steps)) == {"1", "2"}
