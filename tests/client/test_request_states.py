"""States of requests as lists show them."""

from __future__ import annotations

from datetime import UTC, datetime

from lading.client.outcomes import RequestOutcome
from lading.client.request_states import (
    is_reused,
    late_text,
    repeated,
    run_time,
    seconds_of,
    shown_command,
    shown_state,
    waits_unseen,
)


def _shown(state: str, container: str = "", code: int | None = None, **status: str) -> str:
    held = {"state": container, "exit_code": code, "runtime_status": status} if container else None
    return shown_state(RequestOutcome({"state": state}, held))


def test_states_as_they_are_shown() -> None:
    assert _shown("Final") == "cancelled (never ran)"
    assert _shown("Committed") == "waiting"
    # The container goes on for another request.
    assert _shown("Final", "Running") == "cancelled"
    assert _shown("Committed", "Running") == "running"
    assert [_shown("Final", "Complete", code) for code in (0, 5)] == ["done", "failed 5"]


def test_times_of_what_runs_and_has_run() -> None:
    now = datetime(2026, 1, 2, 3, 0, 9, tzinfo=UTC)
    start, end = "2026-01-02T03:00:00Z", "2026-01-02T03:00:05Z"

    def seconds(state: str, started: str | None, finished: str | None) -> float | None:
        container = {"state": state, "started_at": started, "finished_at": finished}
        return seconds_of(RequestOutcome({"state": "Committed"}, container), now)

    assert seconds("Complete", start, end) == 5
    assert seconds("Running", start, None) == 9
    assert seconds("Queued", None, None) is None
    assert seconds("Cancelled", start, None) is None
    assert seconds_of(RequestOutcome({"state": "Committed"}, None), now) is None


def test_a_request_without_a_command() -> None:
    assert shown_command({"command": []}) == "(that of the image)"


def test_what_is_reused() -> None:
    container = {"created_at": "2026-01-02T03:00:00Z"}
    assert is_reused({"created_at": "2026-01-02T03:00:01Z"}, container)
    assert not is_reused(container, container)


def test_a_repetition_keeps_its_group_and_sizes() -> None:
    found = {
        "mounts": {},
        "parallel_group": "g",
        "max_parallel": 2,
        "match_resources": True,
        "priority": 7,
    }
    again = repeated(found, {})
    assert (again["parallel_group"], again["max_parallel"]) == ("g", 2)
    assert again["match_resources"]
    assert "priority" not in again


def test_what_could_not_be_run_has_failed() -> None:
    missing = "the command cannot be started: `x` not found"
    assert _shown("Final", "Cancelled", failure="user", error=missing) == "failed 127"
    assert _shown("Final", "Cancelled", failure="timeout") == "failed 124 (timeout)"
    assert _shown("Final", "Cancelled", failure="node") == "failed 125 (node)"
    assert _shown("Final", "Cancelled", error="No request needs it") == "cancelled"


def test_what_never_ran_took_no_time() -> None:
    assert run_time({"started_at": None, "finished_at": "2026-01-02T03:04:05Z"}) == 0


def test_what_waits_without_its_state_showing_it() -> None:
    request = {"state": "Committed", "priority": 5}
    assert waits_unseen(request, {"state": "Queued", "priority": 0})
    assert not waits_unseen(request, {"state": "Queued", "priority": 7})
    assert not waits_unseen(request, {"state": "Running", "priority": 0})
    assert not waits_unseen({**request, "priority": 0}, {"state": "Queued", "priority": 0})
    assert waits_unseen(request, None)
    assert not waits_unseen({**request, "priority": 0}, None)


def test_a_repeated_request_has_no_deadline_of_the_past() -> None:
    found = {"mounts": {}, "scheduling_parameters": {"deadline": "2026-01-02", "preemptible": True}}
    assert repeated(found, {})["scheduling_parameters"] == {"preemptible": True}
    assert found["scheduling_parameters"] != {"preemptible": True}
    draft = {"mounts": {}, "scheduling_parameters": {"deadline": 60}}
    assert repeated(draft, {})["scheduling_parameters"] == {"deadline": 60}


def test_a_request_that_is_late_says_so() -> None:
    now = datetime(2026, 1, 2, 3, 10, tzinfo=UTC)

    def late(deadline: str, started: str | None = None, *, state: str = "Committed") -> str:
        container = {"started_at": started, "scheduling_parameters": {"expected_run_time": 600}}
        request = {"state": state, "scheduling_parameters": {"deadline": deadline}}
        return late_text(RequestOutcome(request, container), now)

    started = "2026-01-02T03:05:00.000000000Z"
    assert late("2026-01-02T03:16:00.000000000Z", started) == ""
    assert late("2026-01-02T03:13:00.000000000Z", started) == (
        "It is expected to miss its deadline, 2026-01-02 03:13:00 UTC, by about 2 min."
    )
    assert late("2026-01-02T03:16:00.000000000Z").endswith("by about 4 min.")
    assert late("2026-01-02T03:16:00.000000000Z", state="Final") == ""
    assert late_text(RequestOutcome({"state": "Committed"}, None), now) == ""
