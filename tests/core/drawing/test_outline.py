"""Graphs as indented lists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lading.core.drawing.outline import neighbours_of, outline, within

_EDGES = [("a", "c"), ("b", "c"), ("c", "d"), ("b", "d")]


def test_neighbours_both_ways() -> None:
    before, after = neighbours_of(_EDGES)
    assert before == {"c": ["a", "b"], "d": ["c", "b"]}
    assert after == {"a": ["c"], "b": ["c", "d"], "c": ["d"]}


def test_a_node_with_two_ways_is_told_once() -> None:
    before, _ = neighbours_of([*_EDGES, ("x", "b")])
    lines = [(one.prefix + one.key, one.is_repeated) for one in outline("d", before)]
    assert lines == [
        ("├─ c", False),
        ("│  ├─ a", False),
        ("│  └─ b", False),
        ("│     └─ x", False),
        ("└─ b", True),
    ]


def test_a_long_chain_and_a_cycle_end() -> None:
    chain = {str(number): [str(number + 1)] for number in range(20_000)}
    assert sum(1 for _ in outline("0", chain)) == 20_000
    assert [one.is_repeated for one in outline("a", {"a": ["b"], "b": ["a"]})] == [False, True]


def test_what_is_near() -> None:
    before, _ = neighbours_of(_EDGES)
    assert within("d", before, 1) == {"d", "c", "b"}
    assert within("d", before, 9) == {"a", "b", "c", "d"}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_each_node_that_can_be_reached_has_one_first_line(pairs: list[tuple[int, int]]) -> None:
    edges = list(dict.fromkeys((str(first), str(second)) for first, second in pairs))
    _, after = neighbours_of(edges)
    lines = list(outline("0", after))
    assert len(lines) <= len(edges)
    firsts = [one.key for one in lines if not one.is_repeated]
    assert sorted({"0", *firsts}) == sorted(within("0", after, 99))
    assert len(firsts) == len(set(firsts))
