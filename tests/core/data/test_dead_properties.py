from __future__ import annotations

import pytest

from lading.core.data import dead_properties as dead
from lading.core.errors import Full

A, B = {"{n}a": "<a/>"}, {"{n}b": "<b/>"}
TREE = {"d": A, "d/f": B, "dd": A}


def test_they_are_one_property_of_the_collection() -> None:
    properties = dead.stored({"own": 1}, TREE)
    assert properties == {"own": 1, dead.KEY: TREE}
    assert dead.read(properties) == TREE
    assert dead.stored(properties, {"d": {}}) == {"own": 1}
    assert dead.read({}) == dead.read({dead.KEY: "no tree"}) == {}


def test_they_have_a_limit() -> None:
    with pytest.raises(Full, match="would take"):
        dead.stored({}, {"f": {"{n}a": "x" * dead.MOST}})


def test_changes_are_made_in_their_order() -> None:
    changes: list[dead.Change] = [("{n}a", None), ("{n}c", "<c/>"), ("{n}c", None), ("{n}x", None)]
    assert dead.patched(TREE, "d", changes)["d"] == {}
    assert dead.patched(TREE, "new", [("{n}c", "<c/>")])["new"] == {"{n}c": "<c/>"}


def test_deletions_and_copies() -> None:
    assert dead.without(TREE, "d") == {"dd": A}
    assert dead.without(TREE, "") == {}
    assert dead.received(TREE, TREE, "d", "e") == {**TREE, "e": A, "e/f": B}
    assert dead.received(TREE, TREE, "d", "e", shallow=True) == {**TREE, "e": A}
    # What was there before is replaced with its properties.
    assert dead.received(TREE, {}, "x", "d") == {"dd": A}
    assert dead.received({}, TREE, "d/f", "g") == {"g": B}
