"""Layered layouts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lading.core.drawing.layered import layers

NAMES = st.sampled_from("abcdefgh")


def test_the_longest_path_makes_the_layers() -> None:
    edges = [("a", "b"), ("b", "c"), ("a", "c"), ("x", "c"), ("a", "elsewhere")]
    assert layers("abcx", edges) == (("a",), ("b", "x"), ("c",))


def test_edges_that_close_a_cycle_do_not_count() -> None:
    assert layers("ab", [("a", "b"), ("b", "a"), ("a", "a")]) == (("a",), ("b",))


def test_neighbours_stand_beside_each_other() -> None:
    found = layers("abcdyx", [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")])
    assert [one for one in found[0] if one in "ab"] == ["a", "b"]
    assert (found[0].index("a") < found[0].index("c")) == (
        found[1].index("x") < found[1].index("y")
    )


def test_no_node() -> None:
    assert layers("", []) == ()


@given(st.lists(st.tuples(NAMES, NAMES)))
def test_every_node_has_one_place(edges: list[tuple[str, str]]) -> None:
    found = layers("abcdefgh", edges)
    assert sorted(one for layer in found for one in layer) == list("abcdefgh")
