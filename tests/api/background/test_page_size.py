"""Sizes of the pages of long work."""

from __future__ import annotations

import pytest

from lading.api.background.page_size import STEP, PageSize


@pytest.mark.parametrize(
    ("taken", "records"),
    [(STEP, 100), (STEP / 1.5, 150), (0.0, 200), (STEP * 2, 50), (STEP * 100, 20)],
)
def test_a_page_follows_the_time_of_the_last_one(taken: float, records: int) -> None:
    size = PageSize(20, 1000)
    size.records = 100
    size.fit(taken)
    assert size.records == records


def test_a_page_has_bounds() -> None:
    size = PageSize(20, 30)
    assert size.records == 20
    size.fit(0)
    assert size.records == 30
