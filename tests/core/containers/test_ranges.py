"""Ranges of sizes: what they accept, and how much a container is given within them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers import constraints
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
    assert constraints.is_range(value) is expected


def test_a_new_container_has_the_least_and_room_for_more() -> None:
    wanted: JsonObject = {"ram": [2, 8], "vcpus": [1, 1], "keep_cache_ram": [3, 4], "API": False}
    assert constraints.lowest(wanted) == {"ram": 2, "vcpus": 1, "keep_cache_ram": 3, "API": False}
    assert constraints.growth(wanted) == {"ram": [2, 8]}
    assert constraints.range_span(None) == (0, 0)


def test_who_locks_gives_what_is_within_the_ranges() -> None:
    given_least: JsonObject = {"ram": 2, "vcpus": 1}
    room: JsonObject = {"ram": [2, 8]}
    assert constraints.granted(given_least, room, {"ram": 8, "vcpus": 1}) == {"ram": 8, "vcpus": 1}
    assert constraints.least({"ram": 8, "vcpus": 1}, room) == given_least
    with pytest.raises(
        Invalid, match=r"runtime_constraints.ram: this container can be given from 2 to 8, not 9"
    ):
        constraints.granted(given_least, room, {"ram": 9})
    with pytest.raises(Invalid, match="can be given 1, not True"):
        constraints.granted(given_least, room, {"vcpus": True})
    with pytest.raises(Invalid, match="keep_cache_ram"):
        constraints.granted(given_least, room, {"keep_cache_ram": 1})


@given(SIZES, SIZES)
def test_what_two_have_in_common_lies_in_both(one: Json, other: Json) -> None:
    shared = constraints.common_range(one, other)
    assert shared == constraints.common_range(other, one)
    (low, high), (least, most) = constraints.range_span(one), constraints.range_span(other)
    inside = [number for number in range(10) if low <= number <= high and least <= number <= most]
    assert shared == ((inside[0], inside[-1]) if inside else None)


@given(
    st.dictionaries(st.sampled_from(constraints.GROWING), SIZES, min_size=2),
    st.lists(SIZES, max_size=4),
)
def test_a_container_suits_all_that_have_joined_it(first: JsonObject, others: list[Json]) -> None:
    fresh, room, joined = constraints.lowest(first), constraints.growth(first), [first]
    for size in others:
        wanted: JsonObject = {**fresh, "ram": size}
        if constraints.common_range(size, room.get("ram", fresh["ram"])) is not None:
            fresh, room = constraints.narrowed(wanted, fresh, room)
            joined.append(wanted)
    for key in constraints.GROWING:
        possible = room.get(key, fresh[key])
        assert constraints.range_span(possible)[0] == fresh[key]
        for wanted in joined:
            low, high = constraints.range_span(wanted[key])
            assert (
                low
                <= constraints.range_span(possible)[0]
                <= constraints.range_span(possible)[1]
                <= high
            )
