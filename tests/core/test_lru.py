"""Values in memory: bounded, and the oldest go first."""

from __future__ import annotations

from lading.core.bounded_memory import LruMap


def test_the_values_not_used_for_longest_go() -> None:
    kept = LruMap[str, int](3)
    for number, key in enumerate("abc"):
        kept.put(key, number)
    assert kept.get("a") == 0
    kept.put("d", 3)
    assert (len(kept), "b" in kept, "d" in kept) == (3, False, True)
    assert [kept.get(key) for key in "abcd"] == [0, None, 2, 3]


def test_sizes_count_and_a_replaced_value_counts_once() -> None:
    kept = LruMap[str, str](10)
    kept.put("a", "first", 6)
    kept.put("a", "second", 4)
    kept.put("b", "other", 6)
    assert (kept.get("a"), kept.get("b")) == ("second", "other")
    kept.put("c", "large", 100)
    assert [kept.get(key) for key in "abc"] == [None, None, "large"]
