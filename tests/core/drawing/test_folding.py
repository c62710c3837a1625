"""Graphs folded by steps."""

from __future__ import annotations

from lading.core.drawing.folding import LineageNode, fold


def _node(key: str, name: str, *, sealed: bool = False, state: str = "") -> LineageNode:
    return LineageNode(key=key, kind="request", name=name, sealed=sealed, state=state)


def test_steps_with_numbers_are_one_node() -> None:
    nodes = [
        _node("a", "start"),
        _node("b", "sort.1", state="Complete"),
        _node("c", "sort.2", state="Complete"),
        _node("d", "elsewhere"),
    ]
    found = fold(nodes, [("a", "b"), ("a", "c"), ("b", "c"), ("a", "?")], start="a", most=9)
    assert [(one.name, len(one.nodes), one.states) for one in found.nodes] == [
        ("start", 1, {}),
        ("sort", 2, {"Complete": 2}),
    ]
    assert found.edges == (("a", "b"),)


def test_what_is_sealed_stays_apart() -> None:
    nodes = [_node("a", "start"), *(_node(key, "sealed", sealed=True) for key in "xy")]
    found = fold(nodes, [("x", "a"), ("y", "a")], start="a", most=9)
    assert len(found.nodes) == 3


def test_each_node_can_stay_alone() -> None:
    nodes = [_node("a", "start"), _node("b", "sort.1"), _node("c", "sort.2")]
    found = fold(nodes, [("a", "b"), ("a", "c")], start="a", most=9, by_step=False)
    assert [one.name for one in found.nodes] == ["start", "sort.1", "sort.2"]


def test_the_nearest_are_kept() -> None:
    nodes = [_node(key, key) for key in "abcd"]
    found = fold(nodes, [("d", "c"), ("c", "b"), ("a", "b")], start="a", most=2)
    assert [one.key for one in found.nodes] == ["a", "b"]
    assert (found.edges, found.left_out) == ((("a", "b"),), 2)
