"""Why a request got its container."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers import recipe, reuse, reuse_explanation
from lading.core.containers.mounting.git_trees import ResolvedGitTree
from lading.core.containers.reuse_explanation import Nearest
from lading.core.quantities import told_time
from lading.core.values import FieldDifference
from tests.records import (
    INPUT,
    NOW,
    POLICY,
    container_uuid,
    make_container,
    make_recipe,
    make_request,
)

OUT = {"kind": "tmp", "capacity": 1000}


def difference(**changes: Any) -> list[tuple[str, Any, Any]]:
    found = recipe.recipe_differences(make_recipe(**changes), make_recipe())
    return [(one.field, one.ours, one.theirs) for one in found]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"priority": 9}, []),
        (
            {"command": ["echo", "bye", "-v"]},
            [("command[1]", "bye", "hello"), ("command[2]", "-v", None)],
        ),
        ({"command": ["echo"]}, [("command[1]", None, "hello")]),
        ({"environment": {"A": "b"}}, [("environment.A", "b", None)]),
        ({"mounts": {"/out": {"kind": "tmp", "capacity": 5}}}, [("mounts./out.capacity", 5, 1000)]),
        ({"mounts": {"/out": OUT, "/x": OUT}}, [("mounts./x", OUT, None)]),
        (
            {"secret_mounts": {"/s": {"content": "x"}}},
            [("secret_mounts", "(secret)", "(another secret)")],
        ),
    ],
)
def test_differences_are_named(
    changes: dict[str, Any], expected: list[tuple[str, Any, Any]]
) -> None:
    assert difference(**changes) == expected


def test_a_different_input_is_named_by_its_hash() -> None:
    spec = {"kind": "collection", "portable_data_hash": INPUT}
    assert difference(mounts={"/out": OUT, "/in": spec}) == [("mounts./in", spec, None)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from("ab"),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(JSON, JSON)
def test_recipes_differ_somewhere_if_and_only_if_their_keys_do(one: Any, other: Any) -> None:
    ours, theirs = (
        make_recipe(mounts={"/a": {"kind": "json", "content": content}}) for content in (one, other)
    )
    assert (recipe.recipe_differences(ours, theirs) == ()) == (
        recipe.key(ours) == recipe.key(theirs)
    )


def test_the_nearest_container_is_the_latest_with_fewest_differences() -> None:
    far = make_container(1, command=["x", "y", "z"], created_at="3")
    old, new = (make_container(number, cwd="/tmp", created_at=str(number)) for number in (1, 2))
    found = reuse_explanation.nearest(make_recipe(), [far, old, new])
    assert [one.container for one in found] == [new, old, far]
    assert found[0].differences == (FieldDifference("cwd", ".", "/tmp"),)
    assert reuse_explanation.nearest(make_recipe(), []) == ()


def test_explanations_are_plain_json() -> None:
    ours = make_recipe()
    choice = reuse.choose(
        ours, [reuse.Candidate(make_container(1, state="Cancelled"))], policy=POLICY
    )
    near = reuse_explanation.nearest(ours, [make_container(2, cwd="/tmp")])
    trees = {
        "/src": (
            ResolvedGitTree("c" * 40, "tree", "a" * 40),
            ResolvedGitTree("d" * 40, "tree", "b" * 40),
        )
    }
    same = Nearest(make_container(3), ())
    made = reuse_explanation.explain(
        choice, container_uuid=container_uuid(9), near=(*near, same), trees=trees, rule="r"
    )
    assert json.loads(json.dumps(made)) == {
        "decision": "new",
        "reason": "the same was asked for before, but none of those containers can be used",
        "rule": "r",
        "container_uuid": container_uuid(9),
        "candidates": [
            {
                "container_uuid": container_uuid(1),
                "state": "Cancelled",
                "exit_code": None,
                "usable": False,
                "reason": "it was cancelled and has no result",
            }
        ],
        "nearest": {
            "container_uuid": container_uuid(2),
            "state": "Queued",
            "exit_code": None,
            "created_at": NOW,
            "differences": [{"field": "cwd", "request": ".", "container": "/tmp"}],
        },
        "near": [
            {
                "container_uuid": container_uuid(2),
                "state": "Queued",
                "exit_code": None,
                "first_difference": {"field": "cwd", "request": ".", "container": "/tmp"},
            },
            {
                "container_uuid": container_uuid(3),
                "state": "Queued",
                "exit_code": None,
                "first_difference": None,
            },
        ],
        "git": {"/src": {"commit": "c" * 40, "kind": "tree", "hash": "a" * 40, "commits": 2}},
    }


def test_reuse_needs_no_nearest() -> None:
    choice = reuse.choose(make_recipe(), [reuse.Candidate(make_container(1))], policy=POLICY)
    made = reuse_explanation.explain(choice, container_uuid=container_uuid(1))
    assert (made["decision"], made["nearest"]) == ("reuse", None)


@pytest.mark.parametrize(
    ("container", "dispatcher", "sentence"),
    [
        (None, "x", "No container is assigned."),
        (make_container(state="Running"), "x", ""),
        (make_container(), "first in the queue", "first in the queue"),
        (make_container(), None, "Waiting in queue."),
        (make_container(state="Locked", priority=0), None, "Waiting in queue."),
        (make_container(priority=0), None, ""),
    ],
)
def test_status_sentences(container: Any, dispatcher: str | None, sentence: str) -> None:
    assert reuse_explanation.status_sentence(container, dispatcher) == sentence


def test_a_container_that_nobody_wants_yet_waits_as_its_request_does() -> None:
    assert (
        reuse_explanation.status_sentence(make_container(priority=0), "x", "it waits for another")
        == "it waits for another"
    )


@pytest.mark.parametrize(
    ("state", "changes", "sentence"),
    [
        ("Uncommitted", {}, "It is a draft"),
        ("Committed", None, "It has no container."),
        ("Final", {"state": "Running"}, "It was cancelled before its container ended."),
        ("Final", {"state": "Complete", "exit_code": 3}, "Its container ended with exit code 3."),
        (
            "Final",
            {"state": "Cancelled", "runtime_status": {"error": "no disk"}},
            "was cancelled (no disk).",
        ),
        (
            "Committed",
            {"state": "Running", "started_at": NOW},
            f"has been running since {told_time(NOW)}.",
        ),
        ("Committed", {}, "Its container is waiting to run."),
        ("Committed", {"priority": 0}, "Its container is not to run yet."),
    ],
)
def test_outcomes(state: str, changes: dict[str, Any] | None, sentence: str) -> None:
    container = None if changes is None else make_container(**changes)
    assert sentence in reuse_explanation.request_outcome(make_request(state=state), container)


def test_on_hold_is_what_the_user_set_to_0() -> None:
    asked = make_request(state="Committed", priority=0)
    assert (
        reuse_explanation.request_outcome(asked, make_container(priority=0))
        == "It is on hold: its priority is 0."
    )
