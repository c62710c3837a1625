from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import ExecutionError, Failure
from lading.core.user_ids import MOST_LARGE, PLAIN, SIZE, Extent, extents, large

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
