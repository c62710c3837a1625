from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import ExecutionError, Failure
from lading.core.user_ids import (
    MOST_LARGE,
    MOST_RANGES,
    PLAIN,
    SIZE,
    Extent,
    count_ids,
    extents,
    first_ids,
    inherited,
    large,
    subordinate,
)

_LARGEST = (1 << 32) - 2
_ids = st.sets(st.integers(PLAIN, _LARGEST), max_size=MOST_LARGE)


def test_a_usual_image_has_one_extent() -> None:
    assert extents(1000) == (Extent(0, 1000, PLAIN),)


@given(st.lists(st.integers(0, _LARGEST)))
def test_large_ids_are_those_that_not_every_container_has(ids: list[int]) -> None:
    found = large(ids)
    assert found <= {one for one in ids if one >= PLAIN}
    assert len(found) == min(len({one for one in ids if one >= PLAIN}), MOST_LARGE + 1)


@given(_ids)
def test_every_large_id_has_one_of_the_range_to_itself(ids: set[int]) -> None:
    rows = extents(5000, ids)
    outside = [one for row in rows for one in (row.outside, row.outside + row.size - 1)]
    assert 5000 <= min(outside) <= max(outside) < 5000 + SIZE
    assert {row.inside for row in rows[1:]} == ids
    assert len({row.outside for row in rows}) == len(rows)
    assert all(row.outside >= 5000 + PLAIN for row in rows[1:])


def test_more_than_a_container_can_have_are_refused_for_good() -> None:
    with pytest.raises(ExecutionError, match="more than 256 users and groups above") as caught:
        extents(0, range(PLAIN, PLAIN + MOST_LARGE + 1))
    assert caught.value.failure is Failure.IMAGE
    assert len(caught.value.message) <= 300


def test_an_image_of_very_many_large_ids_is_not_read_to_its_end() -> None:
    ids = iter(range(PLAIN, PLAIN + 2 * MOST_LARGE))
    assert len(large(ids)) == MOST_LARGE + 1
    assert next(ids) == PLAIN + MOST_LARGE + 1


def test_ranges_of_a_user_follow_each_other() -> None:
    text = "ann:100000:65536\nbob:165536:65536\n\n# x\nann:x:1\nann:1\n1000:300000:10\n"
    rows = subordinate(text, ("ann", "1000"))
    assert rows == (Extent(1, 100_000, 65_536), Extent(65_537, 300_000, 10))
    assert count_ids(rows) == 65_546
    assert subordinate(text, ("eve",)) == ()
    assert subordinate(text, ("ann", "1000"), most=65_536) == rows[:1]
    assert subordinate("ann:1:0\n", ("ann",)) == ()


def test_only_so_many_ranges_are_mapped() -> None:
    text = "".join(f"ann:{1000 * number}:2\n" for number in range(2 * MOST_RANGES))
    assert len(subordinate(text, ("ann",))) == MOST_RANGES


def test_a_map_is_cut_to_a_number_of_ids() -> None:
    rows = (Extent(1, 100, 10), Extent(11, 200, 10))
    assert first_ids(rows, 20) == rows
    assert first_ids(rows, 12) == (Extent(1, 100, 10), Extent(11, 200, 2))
    assert first_ids(rows, 10) == rows[:1]
    assert first_ids(rows, 0) == ()


def test_a_namespace_below_has_the_rows_of_both_maps() -> None:
    assert inherited((), ()) == (Extent(0, 0, 1),)
    one = (Extent(1, 100, 30),)
    assert inherited(one, one) == (Extent(0, 0, 1), Extent(1, 1, 30))
    two = (Extent(1, 500, 10), Extent(11, 700, 20))
    rows = (Extent(0, 0, 1), Extent(1, 1, 10), Extent(11, 11, 20))
    assert inherited(one, two) == inherited(two, one) == rows
