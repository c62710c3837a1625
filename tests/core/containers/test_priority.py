"""Priorities of containers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers import priority
from lading.core.containers.priority import STEP, GroupMember, group_of, out_of_turn, take_turns
from lading.core.containers.request import ContainerRequest
from lading.core.quantities import format_time
from tests.records import make_request


def wanted(
    number: int, container: str, *, by: str | None = None, user: int = 1, **changes: str
) -> ContainerRequest:
    return make_request(
        number,
        state="Committed",
        container_uuid=container,
        requesting_container_uuid=by,
        priority=user,
        **changes,
    )


@pytest.mark.parametrize(
    ("user", "created_at", "expected"),
    [
        (1, "1970-01-01T00:00:00.000000000Z", STEP),
        (0, "1970-01-01T00:00:01.000000000Z", -1000),
        (1000, "1970-01-01T00:00:00.001500000Z", 1000 * STEP - 2),
        (1000, "1970-01-01T00:00:00.001499000Z", 1000 * STEP - 1),
    ],
)
def test_the_formula(user: int, created_at: str, expected: int) -> None:
    assert priority.own_priority(user, created_at) == expected


MILLISECONDS = st.integers(0, 4 * 10**12).map(
    lambda ms: format_time(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms))
)


@given(st.integers(0, 1000), MILLISECONDS, MILLISECONDS)
def test_a_higher_user_priority_always_wins_and_nothing_is_rounded(
    user: int, one: str, other: str
) -> None:
    assert priority.own_priority(user + 1, one) > priority.own_priority(user, other)
    assert (priority.own_priority(user, one) > priority.own_priority(user, other)) == (one < other)


def test_older_requests_win_ties() -> None:
    old = wanted(1, "c", created_at="2026-01-01T00:00:00.000000000Z")
    new = wanted(2, "c", created_at="2026-01-01T00:00:00.001000000Z")
    assert priority.container_priority([old], {}) - priority.container_priority([new], {}) == 1
    assert priority.container_priority([new, old], {}) == priority.container_priority([old], {})


def test_only_wanted_requests_count() -> None:
    idle = [
        make_request(1, priority=5),
        wanted(2, "c", user=0),
        make_request(3, state="Final", priority=5),
    ]
    assert priority.container_priority(idle, {}) == 0
    assert priority.container_priority([], {}) == 0


def test_children_rank_with_their_parent() -> None:
    child = wanted(1, "child", by="parent", user=3)
    assert priority.container_priority([child], {"parent": 2**60 + 1}) == 2**60 + 1
    assert priority.container_priority([child], {"parent": 0}) == 0
    own = priority.own_priority(3, child.created_at)
    assert priority.container_priority([child], {"parent": None}) == own
    assert priority.container_priority([child], {}) == own


def test_a_change_reaches_grandchildren() -> None:
    requests = [wanted(3, "c", by="b"), wanted(2, "b", by="a"), wanted(1, "a", user=7)]
    top = priority.own_priority(7, requests[2].created_at)
    changed = priority.propagate({"a": 0, "b": 0, "c": 0}, requests, recompute=["c", "b", "a"])
    assert changed == {"a": top, "b": top, "c": top}
    assert priority.propagate(dict.fromkeys("abc", top), requests, recompute=["a", "b", "c"]) == {}


def test_a_cancelled_parent_takes_its_children_along() -> None:
    requests = [wanted(1, "a", user=0), wanted(2, "b", by="a")]
    assert priority.propagate({"a": 9, "b": 9}, requests, recompute=["a", "b"]) == {"a": 0, "b": 0}


def test_parents_that_are_not_recomputed_keep_their_value() -> None:
    assert priority.propagate({"a": 9, "b": 0}, [wanted(1, "b", by="a")], recompute=["b"]) == {
        "b": 9
    }


def test_asking_for_oneself_gains_nothing() -> None:
    loop = [wanted(1, "a", user=0), wanted(2, "a", by="b"), wanted(3, "b", by="a")]
    assert priority.propagate({"a": 9, "b": 9}, loop, recompute=["a", "b"]) == {"a": 0, "b": 0}
    assert priority.propagate({"a": 9}, [wanted(1, "a", by="a")], recompute=["a"]) == {"a": 0}


EDGES = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from([None, *"abcde"]), st.integers(0, 2)),
    max_size=8,
)


@given(EDGES)
def test_propagation_ends_and_is_stable_without_cycles(
    edges: list[tuple[str, str | None, int]],
) -> None:
    forward = [(to, by, user) for to, by, user in edges if by is None or by < to]
    requests = [
        wanted(number, to, by=by, user=user) for number, (to, by, user) in enumerate(forward)
    ]
    first = priority.propagate(dict.fromkeys("abcde", 0), requests, recompute="abcde")
    stored: dict[str, int | None] = {**dict.fromkeys("abcde", 0), **first}
    assert priority.propagate(stored, requests, recompute="edcba") == {}
    assert all(value > 0 for value in first.values())


def member(number: int, *, most: int = 2, **changes: Any) -> GroupMember:
    return GroupMember(
        **{
            "uuid": f"r{number}",
            "container_uuid": f"c{number}",
            "priority": 1,
            "created_at": f"2026-01-0{number}",
            "most": most,
            **changes,
        }
    )


def test_turns_are_taken_by_priority_and_age() -> None:
    assert take_turns([member(3), member(1), member(2)]) == {"c1", "c2"}
    assert take_turns([member(1), member(2), member(3, priority=9)]) == {"c3", "c1"}
    assert take_turns([member(1), member(2), member(3, holds=True, priority=0)]) == {"c1", "c3"}
    assert take_turns([member(1, most=1), member(2, most=3)]) == {"c1", "c2"}
    assert take_turns([]) == frozenset()


def test_requests_of_one_container_take_one_turn() -> None:
    members = [member(1), member(2, container_uuid="c1"), member(3), member(4)]
    assert take_turns(members) == {"c1", "c3"}


@given(
    st.lists(
        st.builds(
            member,
            st.integers(1, 9),
            most=st.integers(1, 4),
            priority=st.integers(0, 3),
            holds=st.booleans(),
        ),
        max_size=12,
        unique_by=lambda one: one.uuid,
    )
)
def test_no_turn_too_many_and_none_left_free(members: list[GroupMember]) -> None:
    taken = take_turns(members)
    held = {one.container_uuid for one in members if one.holds}
    assert held <= taken
    for one in members:
        # Nobody else began beyond a limit that holds for all, and nobody waits for nothing.
        if one.container_uuid not in taken:
            assert len(taken) >= one.most
    if members:
        assert len(taken) <= max(len(held), *(one.most for one in members))


def test_which_requests_take_turns() -> None:
    grouped: dict[str, Any] = {"parallel_group": "g", "max_parallel": 2, "committed_by_uuid": "u"}
    assert group_of(make_request(**grouped)) == ("u", "g")
    assert group_of(make_request(**{**grouped, "max_parallel": 0})) is None
    verdict = out_of_turn(make_request(**grouped))
    assert (verdict.counts, "at most 2 containers of the group g" in verdict.sentence) == (
        False,
        True,
    )
