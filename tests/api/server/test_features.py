"""States of features under their keys."""

from __future__ import annotations

import pytest

from lading.api.server.features import FeatureKey, FeatureStates

_NAMES = FeatureKey("names", list[str])
_PLACE = FeatureKey[str]("the place")


def test_a_state_is_made_at_its_first_use() -> None:
    states = FeatureStates()
    states[_NAMES].append("a")
    assert states[_NAMES] == ["a"]
    assert FeatureStates()[_NAMES] == []


def test_a_state_without_a_maker_is_put_in_place() -> None:
    states = FeatureStates()
    with pytest.raises(LookupError, match="the place: is not in place"):
        states[_PLACE]
    states[_PLACE] = "here"
    assert states[_PLACE] == "here"
