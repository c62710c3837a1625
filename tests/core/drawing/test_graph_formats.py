"""Graphs as text of other programs."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from hypothesis import given
from hypothesis import strategies as st

from lading.core.drawing.folding import FoldedGraph, LineageNode, fold
from lading.core.drawing.graph_formats import to_dot, to_mermaid, to_svg

_SVG = "{http://www.w3.org/2000/svg}"


def _graph(name: str = "merge") -> FoldedGraph:
    nodes = [
        LineageNode(key="i", kind="image", name="debian:12"),
        LineageNode(key="a", kind="request", name="sort.1", state="done, reused"),
        LineageNode(key="b", kind="request", name="sort.2", state="failed 3"),
        LineageNode(key="c", kind="collection", name="output of sort.1"),
        LineageNode(key="x", kind="collection", name="not readable", sealed=True),
        LineageNode(key="d", kind="request", name=name, state="done"),
        LineageNode(key="e", kind="request", name="stopped", state="cancelled"),
    ]
    edges = [("i", "a"), ("i", "b"), ("a", "c"), ("c", "d"), ("x", "d"), ("d", "e")]
    return fold(nodes, edges, start="d", most=99)


def test_dot() -> None:
    lines = to_dot(_graph('a "b"\n\\c')).splitlines()
    assert lines[:2] == ["digraph lineage {", "  rankdir=LR;"]
    assert '  n0 [shape=ellipse, label="a \\"b\\" \\\\c\\ndone"];' in lines
    assert '  n2 [shape=box, label="not readable\\ncollection", style=dashed];' in lines
    assert any('label="sort × 2\\ndone, reused 1, failed 3 1"' in line for line in lines)
    assert sum(" -> " in line for line in lines) == 5


def test_mermaid() -> None:
    lines = to_mermaid(_graph('#1 <b> "x"')).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  n0(["#35;1 &lt;b&gt; #quot;x#quot;<br>done"])' in lines
    assert any(line.endswith('[["debian:12<br>image"]]') for line in lines)
    assert sum(" --> " in line for line in lines) == 5


def test_svg() -> None:
    text = to_svg(_graph("<script>"), start="d")
    assert "<script>" not in text
    tree = ElementTree.fromstring(text)
    classes = [one.get("class") for one in tree.iter(f"{_SVG}rect")]
    assert sorted(map(str, classes)) == [
        "collection", "collection sealed", "image", "request failed", "request failed reused",
        "request start",
    ]  # fmt: skip
    assert len(list(tree.iter(f"{_SVG}path"))) == 5


@given(st.text())
def test_no_name_breaks_a_picture(name: str) -> None:
    ElementTree.fromstring(to_svg(_graph(name.replace("\x00", "")), start="d"))


def test_a_long_name_is_cut_in_the_picture_alone() -> None:
    text = to_svg(_graph("n" * 60), start="d")
    assert f"<title>{'n' * 60}</title>" in text
    assert f"{'n' * 23}…</text>" in text
