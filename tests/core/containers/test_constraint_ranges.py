"""Ranges of sizes: what they accept, and how much a container is given within them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers import constraint_ranges
from lading.core.errors import Invalid
from lading.core.values import Json, JsonObject

SPANS = st.tuples(st.integers(1, 9), st.integers(1, 9)).map(lambda pair: [*sorted(pair)])
SIZES = st.integers(1, 9) | SPANS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2], True),
        ([2, 2], True),
        ([2, 1], False),
        ([1], False),
        ([1, "2"], False),
        ([True, 2], False),
        (3, False),
    ],
)
def test_what_is_a_range(value: Json, expected: bool) -> None:
    assert constraint_ranges.is_range(value) is expected


def test_a_new_container_has_the_least_and_room_for_more() -> None:
    wanted: JsonObject = {"ram": [2, 8], "vcpus": [1, 1], "keep_cache_ram": [3, 4], "API": False}
    assert constraint_ranges.lowest(wanted) == {
        "ram": 2,
        "vcpus": 1,
        "keep_cache_ram": 3,
        "API": False,
    }
    assert constraint_ranges.growth(wanted) == {"ram": [2, 8]}
    assert constraint_ranges.range_span(None) == (0, 0)


def test_who_locks_gives_what_is_within_the_ranges() -> None:
    given_least: JsonObject = {"ram": 2, "vcpus": 1}
    room: JsonObject = {"ram": [2, 8]}
    assert constraint_ranges.granted(given_least, room, {"ram": 8, "vcpus": 1}) == {
        "ram": 8,
        "vcpus": 1,
    }
    assert constraint_ranges.least({"ram": 8, "vcpus": 1}, room) == given_least
    with pytest.raises(
        Invalid, match=r"runtime_constraints.ram: this container can be given from 2 to 8, not 9"
    ):
        constraint_ranges.granted(given_least, room, {"ram": 9})
    with pytest.raises(Invalid, match="can be given 1, not True"):
        constraint_ranges.granted(given_least, room, {"vcpus": True})
    with pytest.raises(Invalid, match="keep_cache_ram"):
        constraint_ranges.granted(given_least, room, {"keep_cache_ram": 1})


@given(SIZES, SIZES)
def test_what_two_have_in_common_lies_in_both(one: Json, other: Json) -> None:
    shared = constraint_ranges.common_range(one, other)
    assert shared == constraint_ranges.common_range(other, one)
    (low, high), (least, most) = (
        constraint_ranges.range_span(one),
        constraint_ranges.range_span(other),
    )
    inside = [number for number in range(10) if low <= number <= high and least <= number <= most]
    assert shared == ((inside[0], inside[-1]) if inside else None)


@given(
    st.dictionaries(st.sampled_from(constraint_ranges.GROWING), SIZES, min_size=2),
    st.lists(SIZES, max_size=4),
)
def test_a_container_suits_all_that_have_joined_it(first: JsonObject, others: list[Json]) -> None:
    fresh, room, joined = constraint_ranges.lowest(first), constraint_ranges.growth(first), [first]
    for size in others:
        wanted: JsonObject = {**fresh, "ram": size}
        if constraint_ranges.common_range(size, room.get("ram", fresh["ram"])) is not None:
            fresh, room = constraint_ranges.narrowed(wanted, fresh, room)
            joined.append(wanted)
    for key in constraint_ranges.GROWING:
        possible = room.get(key, fresh[key])
        assert constraint_ranges.range_span(possible)[0] == fresh[key]
        for wanted in joined:
            low, high = constraint_ranges.range_span(wanted[key])
            assert (
                low
                <= constraint_ranges.range_span(possible)[0]
                <= constraint_ranges.range_span(possible)[1]
                <= high
            )
