"""How many copies collections have, and in which classes."""

from __future__ import annotations

import pytest

from lading.core.data.confirmation import CopyCount, count_copies
from lading.core.data.placement import ReplicaPlace

PLACES = {
    "one": ReplicaPlace(uuid="one"),
    "two": ReplicaPlace(uuid="two", copies=2, classes=frozenset({"default", "fast"})),
    "any": ReplicaPlace(uuid="any", copies=None, classes=frozenset({"archive"})),
}
HELD = {"a": ["one", "two"], "b": ["one", "any"], "c": ["two", "any"]}


@pytest.mark.parametrize(
    ("hashes", "classes", "count"),
    [
        ("a", ["default"], CopyCount(3, ("default",))),
        ("ab", ["default"], CopyCount(1, ("default",))),
        ("aa", ["default"], CopyCount(3, ("default",))),
        ("a", ["default", "fast"], CopyCount(2, ("default", "fast"))),
        ("ab", ["fast", "default"], CopyCount(0, ("default",))),
        ("bc", ["archive"], CopyCount(4, ("archive",))),
        ("ac", ["archive"], CopyCount(0, ())),
        ("x", ["default"], CopyCount(0, ())),
        ("a", ["unknown"], CopyCount(0, ())),
        ("", ["fast", "fast", "unknown"], CopyCount(4, ("fast", "unknown"))),
    ],
)
def test_the_least_number_of_copies_counts(
    hashes: str, classes: list[str], count: CopyCount
) -> None:
    assert count_copies(hashes, copies=4, classes=classes, volumes_of=HELD, places=PLACES) == count


def test_a_count_meets_what_is_asked_for() -> None:
    count = CopyCount(2, ("default", "fast"))
    assert count.meets(2, ["fast"])
    assert not count.meets(3, ["fast"])
    assert not count.meets(1, ["fast", "archive"])
