"""Texts of explanations, which the command line and the page share."""

from __future__ import annotations

from typing import Any

import pytest

from lading.client import explanations

_ANSWER: dict[str, Any] = {
    "request_uuid": "r",
    "outcome": "Its container is waiting to run.",
    "scheduling_status": "No room.",
    "waits": [{"reason": "capacity", "sentence": "No room."}],
    "container": {"uuid": "c"},
    "attempted_container_uuids": ["a", "b"],
    "attempts": [
        {
            "uuid": "a",
            "state": "Cancelled",
            "exit_code": 3,
            "runtime_status": {"failure": "oom", "error": "no memory"},
            "runtime_constraints": {"ram": 1 << 30},
            "cost": 0.25,
            "subrequests_cost": 0.5,
        }
    ],
    "waited": [{"text": "waited 3 s"}],
    "decision": {"decision": "new", "container_uuid": "c", "reason": "never asked for"},
}

_TRIED = "a: failed 3 (oom): no memory; 1.0 GiB of ram, cost 0.7500"


def test_why_names_each_reason_once() -> None:
    said = explanations.why_fields(_ANSWER)
    assert ("waiting", "") in said
    assert ("because", "No room.") in said
    assert ("waited", "3 s") in said
    assert ("tried before", _TRIED) in said
    assert ("tried before", "b") in said
    assert said[-2:] == [("decision", "run c: never asked for"), ("learned", "")]


def test_what_was_learned_about_the_tool() -> None:
    resolution = {**_ANSWER["decision"], "learned": {"sentence": "c needed more."}}
    said = explanations.why_fields({**_ANSWER, "decision": resolution})
    assert said[-1] == ("learned", "c needed more.")


def test_an_error_of_several_attempts_is_told_once() -> None:
    status = {"failure": "node", "error": "broken"}
    ends = [
        {"uuid": uuid, "state": "Cancelled", "exit_code": None, "runtime_status": one}
        for uuid, one in (("a", status), ("b", {**status, "error": "lost"}), ("c", status))
    ]
    answer = {**_ANSWER, "attempted_container_uuids": ["a", "b", "c"], "attempts": ends}
    told: set[str] = set()
    fields = explanations.why_fields(answer, known_errors=told)
    assert [text for name, text in fields if name == "tried before"] == [
        "a: failed (node): broken (2 attempts)",
        "b: failed (node): lost",
        "c: failed (node), the same error",
    ]
    assert told == {"broken", "lost"}


def test_an_attempt_without_amounts() -> None:
    ended: dict[str, Any] = {"state": "Cancelled", "exit_code": None, "runtime_status": {}}
    assert explanations.attempt_texts([ended]) == ["cancelled"]


def test_a_container_of_another_user_is_not_named_in_a_preview() -> None:
    answer = {"decision": "reuse", "container_uuid": None, "reason": "it is there", "rule": "r"}
    assert explanations.decision_text(answer, would="would ") == (
        "would reuse a container of another user: it is there"
    )
    assert explanations.rule_text(answer) == ""
    assert explanations.rule_text({**answer, "decision": "new"}) == "r"


def test_a_decision_that_has_no_container() -> None:
    said = explanations.decision_text({"decision": "none", "reason": "on hold"}, would="would ")
    assert said == "would have no container: on hold"


def test_the_machine_of_a_container_is_the_last_one() -> None:
    decisions = [
        {"event_type": "dispatched", "container_uuid": "c", "text": "on m1"},
        {"event_type": "dispatched", "container_uuid": "c", "text": "on m2"},
        {"event_type": "dispatched", "container_uuid": "other", "text": "on m3"},
        {"event_type": "ended", "container_uuid": "c", "text": "done"},
    ]
    assert explanations.place_text(decisions, "c") == "on m2"
    assert explanations.place_text(decisions, "d") == ""


def test_differences_are_whole() -> None:
    near = {
        "container_uuid": "d",
        "state": "Complete",
        "differences": [{"field": "m", "request": {"a": 1}, "container": None}],
    }
    assert explanations.nearest_text({"nearest": near}).endswith("(done), which differs in")
    assert list(explanations.difference_rows({"nearest": near})) == [("m", '{"a":1}', "-")]


def test_without_a_nearest() -> None:
    assert explanations.nearest_text({}) == ""
    assert list(explanations.difference_rows({})) == []


@pytest.mark.parametrize(
    ("field", "ours", "theirs", "shown"),
    [
        ("usage.memory", 12582912.0, 1073741824, ("12.0 MiB", "1.0 GiB")),
        ("usage.cpu", 1.25, 90.0, ("1.2 s", "2 min")),
        ("runtime_constraints.ram", 1 << 30, None, ("1.0 GiB", "-")),
        ("cost", 0.00012345, 2, ("0.0001", "2.0000")),
        ("priority", 1, 500, ("1", "500")),
        # One byte more.
        (
            "runtime_constraints.ram",
            1 << 30,
            (1 << 30) + 1,
            ("1.0 GiB (1073741824 B)", "1.0 GiB (1073741825 B)"),
        ),
        ("usage.cpu", 60.25, 61.0, ("60.25 s", "61 s")),
    ],
)
def test_amounts_are_shown_in_words(
    field: str, ours: float, theirs: float | None, shown: tuple[str, str]
) -> None:
    near = {"differences": [{"field": field, "request": ours, "container": theirs}]}
    assert list(explanations.difference_rows({"nearest": near})) == [(field, *shown)]
    assert explanations.further_text({"near": [{}]}) == ""


def test_further_containers() -> None:
    near = {"container_uuid": "e", "state": "Complete", "first_difference": None}
    assert explanations.further_text({"near": [near, near]}) == "further: e (done) in nothing"
