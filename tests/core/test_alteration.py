"""Copies with other attributes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from lading.core.alteration import altered, filled


@dataclass(frozen=True, slots=True)
class Pair:
    one: int
    other: str = ""
    more: list[int] = field(default_factory=list)


def test_a_copy_has_the_attributes_that_are_given_and_else_those_of_the_first() -> None:
    first = Pair(1, "a")
    assert altered(first, other="b") == Pair(1, "b")
    assert altered(first) == first == Pair(1, "a")
    assert altered(first) is not first


def test_an_attribute_that_is_not_there() -> None:
    with pytest.raises(TypeError, match="Pair has no further"):
        altered(Pair(1), further=1)


def test_one_is_made_of_a_record() -> None:
    assert filled(Pair, {"one": 1, "other": None, "further": 2}) == Pair(1)
    assert filled(Pair, {"one": 1, "more": [2]}, other="b") == Pair(1, "b", [2])
    assert filled(Pair, {"one": 1}).more is not filled(Pair, {"one": 1}).more
    with pytest.raises(TypeError, match="Pair without one"):
        filled(Pair, {"one": None})
