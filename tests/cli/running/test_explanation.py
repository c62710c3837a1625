"""Explanations for people."""

from __future__ import annotations

from typing import Any

import pytest

from lading.cli.running.explanation import show_preview, show_trail, show_why

_CANDIDATE = {
    "container_uuid": "c1",
    "state": "Cancelled",
    "usable": False,
    "reason": "it was cancelled",
}


def _near(*differences: dict[str, Any]) -> dict[str, Any]:
    return {
        "nearest": {"container_uuid": "c2", "state": "Complete", "differences": list(differences)}
    }


def test_a_preview(capsys: pytest.CaptureFixture[str]) -> None:
    show_preview(
        {
            "decision": "reuse",
            "container_uuid": "c",
            "reason": "it is done",
            "candidates": [_CANDIDATE],
        }
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "would reuse c: it is done"
    assert lines[3].split() == ["c1", "cancelled", "no", "it", "was", "cancelled"]


def test_differences_show_both_values(capsys: pytest.CaptureFixture[str]) -> None:
    show_trail(
        _near(
            {"field": "command[1]", "request": "x", "container": None},
            {"field": "m", "request": {"a": 1}},
        )
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].split() == ["command[1]", "x", "-"]
    assert lines[-1].split() == ["m", '{"a":1}', "-"]


def test_a_nearest_that_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    show_trail(_near())
    assert "c2 (done), the same in every field" in capsys.readouterr().out


def test_why_without_a_decision(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {
        "request_uuid": "r",
        "outcome": "It is a draft.",
        "scheduling_status": "",
        "container": None,
    }
    show_why({**answer, "attempted_container_uuids": ["a", "b"], "decision": None})
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "request       r",
        "outcome       It is a draft.",
        "tried before  a",
        "tried before  b",
    ]


def test_why_it_waits(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {
        "request_uuid": "r",
        "outcome": "It waits.",
        "scheduling_status": "",
        "container": None,
    }
    waits = [
        {"reason": "priority", "sentence": "It is on hold."},
        {"reason": "position", "sentence": "2 before it."},
    ]
    show_why({**answer, "attempted_container_uuids": [], "decision": None, "waits": waits})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1) for line in lines[2:]] == [
        ["because", "It is on hold."],
        ["because", "2 before it."],
    ]


def test_a_request_that_nothing_can_satisfy(capsys: pytest.CaptureFixture[str]) -> None:
    show_preview(
        {
            "decision": "none",
            "container_uuid": None,
            "reason": "no container will do",
            "candidates": [],
        }
    )
    assert capsys.readouterr().out == "would have no container: no container will do\n"


def test_the_next_nearest_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    near = [
        {"container_uuid": uuid, "state": "Complete", "first_difference": difference}
        for uuid, difference in (
            ("c2", None),
            ("c3", {"field": "cwd", "request": ".", "container": "/"}),
            ("c4", None),
        )
    ]
    show_trail({**_near(), "near": near})
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "further: c3 (done) differs first in cwd; c4 (done) in nothing"


def test_what_was_tried_before_and_how_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {
        "request_uuid": "r",
        "outcome": "It waits.",
        "scheduling_status": "",
        "container": None,
    }
    status = {"failure": "image", "error": "image x: cannot be read"}
    attempts = [
        {"uuid": "a", "state": "Cancelled", "exit_code": None, "runtime_status": status},
        {"uuid": "b", "state": "Complete", "exit_code": 137, "runtime_status": {}},
    ]
    show_why(
        {**answer, "attempted_container_uuids": ["a", "b"], "attempts": attempts, "decision": None}
    )
    assert capsys.readouterr().out.splitlines()[2:] == [
        "tried before  a: failed (image): image x: cannot be read",
        "tried before  b: failed 137",
    ]


def test_what_is_waited_for_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {
        "request_uuid": "r",
        "outcome": "It waits.",
        "scheduling_status": "The quota is 1.",
        "container": None,
    }
    waits = [{"reason": "quota", "sentence": "The quota is 1."}]
    show_why({**answer, "attempted_container_uuids": [], "decision": None, "waits": waits})
    assert capsys.readouterr().out.count("The quota is 1.") == 1


def test_what_never_counts_is_said_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    show_preview(
        {
            "decision": "new",
            "container_uuid": None,
            "reason": "no other",
            "candidates": [],
            "not_compared": ["names", "times"],
            "rule": "Only your own.",
        },
        is_verbose=True,
    )
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "never compared: names, times",
        "other users: Only your own.",
    ]
