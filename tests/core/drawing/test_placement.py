"""Places of nodes."""

from __future__ import annotations

from lading.core.drawing.folding import FoldedGraph, LineageNode, fold
from lading.core.drawing.placement import HEIGHT, WIDTH, follows, place


def test_nodes_do_not_overlap_and_links_go_right() -> None:
    nodes = [LineageNode(key=key, kind="collection", name=key * 2) for key in "abcd"]
    edges = [("a", "b"), ("b", "c"), ("a", "c"), ("d", "c")]
    drawing = place(fold(nodes, edges, start="b", most=9), start="b")
    placed = {one.node.key: one for one in drawing.nodes}
    assert placed["a"].x < placed["b"].x == placed["d"].x < placed["c"].x
    assert abs(placed["b"].y - placed["d"].y) > HEIGHT
    assert drawing.width > placed["c"].x + WIDTH
    assert drawing.height > max(one.y for one in drawing.nodes) + HEIGHT
    assert [one.node.key for one in drawing.nodes if one.is_start] == ["b"]
    assert placed["c"].sources == ["bb", "aa", "dd"]
    assert placed["a"].users == ["bb", "cc"]
    # Only the link past a layer has straight parts.
    assert [" L " in path for path in drawing.paths] == [False, False, True, False]


def test_nothing_has_no_place() -> None:
    empty = place(FoldedGraph(nodes=(), edges=(), left_out=0), start="a")
    assert (empty.nodes, empty.paths) == ((), ())


def test_a_path_goes_through_what_is_between_its_nodes() -> None:
    nodes = [LineageNode(key=key, kind=key[0], name=key) for key in ("a", "x", "b", "y", "z")]
    edges = [("a", "x"), ("x", "b"), ("a", "y"), ("z", "b")]
    graph = fold(nodes, edges, start="b", most=9)
    path, links = follows(graph.nodes, graph.edges, {"a", "b"})
    assert path == {"a", "x", "b"}
    assert links == {("a", "x"), ("x", "b")}
    assert follows(graph.nodes, graph.edges, ()) == (frozenset(), frozenset())


def test_the_ends_of_each_path_are_known() -> None:
    nodes = [LineageNode(key=key, kind="request", name=key) for key in "ab"]
    drawing = place(fold(nodes, [("a", "b")], start="a", most=9), start="a")
    assert drawing.edges == (("a", "b"),)
    assert len(drawing.paths) == 1


def test_what_many_use_and_what_many_make_have_lanes_of_their_own() -> None:
    steps = "bcd"
    edges = [*(("a", one) for one in steps), ("b", "c"), ("c", "d"), *((one, "e") for one in steps)]
    nodes = [LineageNode(key=key, kind="request", name=key) for key in "abcde"]
    drawing = place(fold(nodes, edges, start="d", most=9), start="d")
    lanes = {
        ends: int(path.partition(" L ")[2].split()[1])
        for ends, path in zip(drawing.edges, drawing.paths, strict=True)
        if " L " in path
    }
    assert lanes["a", "c"] == lanes["a", "d"]
    assert lanes["b", "e"] == lanes["c", "e"]
    assert 0 < lanes["a", "c"] < lanes["b", "e"] < drawing.height
