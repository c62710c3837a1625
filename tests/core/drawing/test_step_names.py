"""Names of steps."""

from __future__ import annotations

import pytest

from lading.core.drawing.step_names import step_name


@pytest.mark.parametrize("name", ["sort.17", "sort_17", "sort (17)", "sort-1.2", "sort[3]", "sort"])
def test_numbers_at_the_end_are_left_out(name: str) -> None:
    assert step_name(name) == "sort"


@pytest.mark.parametrize("name", ["", "17", ".17", "sort2", "a 1 b"])
def test_other_names_stay(name: str) -> None:
    assert step_name(name) == name
