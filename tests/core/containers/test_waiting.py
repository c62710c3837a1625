"""When a request counts: its dependencies, its start time, its end."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.containers import priority
from lading.core.containers.priority import (
    Dependency,
    Readiness,
    ReadinessVerdict,
    bind_siblings,
)
from lading.core.errors import Invalid
from lading.core.values import Json, JsonObject
from tests.records import NOW, make_container, make_request, request_uuid

BEFORE, LATER = "2026-01-01T00:00:00.000000000Z", "2026-01-03T00:00:00.000000000Z"
D1, D2 = request_uuid(2), request_uuid(3)


def judge(*, known: dict[str, Dependency] | None = None, **changes: Any) -> ReadinessVerdict:
    return priority.judge_readiness(
        make_request(state="Committed", **changes), known or {}, now=NOW
    )


def ended(**changes: Any) -> Dependency:
    return Dependency(
        make_request(2, state="Final"),
        make_container(**{"state": "Complete", "exit_code": 0, **changes}),
    )


@pytest.mark.parametrize(
    ("changes", "readiness"),
    [
        ({}, Readiness.READY),
        ({"expires_at": LATER, "start_after": BEFORE}, Readiness.READY),
        ({"expires_at": NOW}, Readiness.EXPIRED),
        ({"expires_at": BEFORE, "start_after": LATER}, Readiness.EXPIRED),
        ({"start_after": LATER}, Readiness.EARLY),
        ({"retry_after": LATER}, Readiness.PAUSED),
        ({"retry_after": BEFORE}, Readiness.READY),
    ],
)
def test_times(changes: dict[str, Any], readiness: Readiness) -> None:
    found = judge(**changes)
    assert (found.readiness, found.counts) == (readiness, readiness is Readiness.READY)


@pytest.mark.parametrize(
    ("dependency", "readiness", "words"),
    [
        (ended(), Readiness.READY, ""),
        (Dependency(make_request(2)), Readiness.DEPENDENT, "is still a draft"),
        (Dependency(make_request(2, state="Committed")), Readiness.DEPENDENT, "has not ended"),
        (Dependency(None), Readiness.BROKEN, "was deleted"),
        (Dependency(make_request(2, state="Final")), Readiness.BROKEN, "ended without a result"),
        (ended(state="Running"), Readiness.BROKEN, "ended without a result"),
        (ended(state="Cancelled"), Readiness.BROKEN, "was cancelled"),
        (ended(exit_code=3), Readiness.BROKEN, "ended with exit code 3"),
    ],
)
def test_dependencies(dependency: Dependency, readiness: Readiness, words: str) -> None:
    known = {D1: dependency} if dependency.request else {}
    found = judge(known=known, depends_on=[D1], start_after=BEFORE)
    assert found.readiness is readiness
    assert words in found.sentence
    assert (D1 in found.sentence) is not found.counts


def test_one_broken_dependency_is_enough() -> None:
    known = {D1: Dependency(make_request(2, state="Committed")), D2: ended(exit_code=1)}
    assert judge(known=known, depends_on=[D1, D2], expires_at=BEFORE).dependency_uuid == D2


def test_requests_of_one_call_are_named_by_number() -> None:
    uuids = ["zzzzz-xvhdp-000000000000001", "zzzzz-xvhdp-000000000000002"]
    given: JsonObject = {
        "depends_on": ["#1", "zzzzz-xvhdp-000000000000009", 7],
        "mounts": {
            "/in": {"kind": "output", "container_request": "#0"},
            "/out": {"kind": "tmp"},
            "/bad": None,
        },
        "name": "#0",
    }
    assert bind_siblings(given, uuids) == {
        "depends_on": [uuids[1], "zzzzz-xvhdp-000000000000009", 7],
        "mounts": {
            "/in": {"kind": "output", "container_request": uuids[0]},
            "/out": {"kind": "tmp"},
            "/bad": None,
        },
        "name": "#0",
    }
    # What is no list or object is refused later, with its name.
    odds: list[dict[str, Json]] = [{}, {"depends_on": "#0", "mounts": "#0"}]
    for odd in odds:
        assert bind_siblings(odd, uuids) == odd


@pytest.mark.parametrize("name", ["#2", "#-1", "#", "#x", "#\u0661", "#9999999999"])
def test_a_number_names_an_earlier_request(name: str) -> None:
    with pytest.raises(Invalid, match="names no earlier request of this call"):
        bind_siblings({"depends_on": [name]}, ["zzzzz-xvhdp-000000000000001"] * 2)
