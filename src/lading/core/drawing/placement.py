"""Places of the nodes of a folded graph, in pixels, and the paths of its edges."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from lading.core.drawing.folding import FoldedGraph, FoldedNode
from lading.core.drawing.layered import Edge, layers
from lading.core.drawing.outline import neighbours_of

_ACROSS, _DOWN = 248, 64
"""From a layer to the next one, and from a node to the next one."""
WIDTH: Final = 184
"""Width of a node."""
HEIGHT: Final = 44
"""Height of a node."""
# Pixels, so that thick borders of the outermost nodes are not cut off.
_MARGIN: Final = 8
_LANE: Final = 28
"""From the middle of a node to the lane above or below its row, in which long edges run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNode:
    """A node with its upper left corner, and the names of its neighbours for a table."""

    node: FoldedNode
    x: int
    y: int
    is_start: bool
    sources: list[str]
    users: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDrawing:
    """Nodes from left to right and from top to bottom, paths of SVG for the edges, in the order of
    the graph, and the size of all.
    """

    nodes: tuple[PlacedNode, ...]
    paths: tuple[str, ...]
    edges: tuple[Edge, ...]
    """The ends of each path."""
    width: int
    height: int


def place(graph: FoldedGraph, *, start: str) -> GraphDrawing:
    """The drawing of a graph, in which `start` is the key of one of the nodes that were folded."""
    placed = layers([node.key for node in graph.nodes], graph.edges)
    tallest = max((len(layer) for layer in placed), default=0)
    corner = {
        key: (
            _MARGIN + column * _ACROSS,
            # Short layers are in the middle; rows of all layers are in line.
            2 * _MARGIN + (row + (tallest - len(layer)) // 2) * _DOWN,
        )
        for column, layer in enumerate(placed)
        for row, key in enumerate(layer)
    }
    names = {node.key: node.name for node in graph.nodes}
    before, after = neighbours_of(graph.edges)
    nodes = [
        PlacedNode(
            node=node,
            x=corner[node.key][0],
            y=corner[node.key][1],
            is_start=any(member.key == start for member in node.nodes),
            sources=[names[key] for key in before.get(node.key, ())],
            users=[names[key] for key in after.get(node.key, ())],
        )
        for node in graph.nodes
    ]
    return GraphDrawing(
        nodes=tuple(sorted(nodes, key=lambda node: (node.x, node.y))),
        paths=tuple(
            _path(corner[first], corner[second], above=len(after[first]) > len(before[second]))
            for first, second in graph.edges
        ),
        edges=graph.edges,
        width=len(placed) * _ACROSS - (_ACROSS - WIDTH) + 2 * _MARGIN,
        height=tallest * _DOWN + 3 * _MARGIN,
    )


def follows(
    nodes: Iterable[FoldedNode], edges: Iterable[Edge], chosen: Collection[str]
) -> tuple[frozenset[str], frozenset[Edge]]:
    """The path of the nodes that have a member in `chosen`: their keys with the keys of nodes
    between two of them, and the edges of the path.
    """
    marked = {node.key for node in nodes if any(member.key in chosen for member in node.nodes)}
    links = list(edges)
    before, after = neighbours_of(links)
    between = {
        key
        for key in before.keys() & after.keys()
        if marked.intersection(before[key]) and marked.intersection(after[key])
    }
    path = frozenset(marked | between)
    return path, frozenset(edge for edge in links if path.issuperset(edge))


def _path(first: tuple[int, int], second: tuple[int, int], *, above: bool) -> str:
    """The path of an SVG curve from the right side of a node to the left side of another one; past
    other layers it runs `above` its row or below it, so that no node hides it.

    Nodes that many use and nodes that many make have different lanes: in one lane their edges look
    like edges between neighbours.
    """
    x, y = first[0] + WIDTH, first[1] + HEIGHT // 2
    end_x, end_y = second[0], second[1] + HEIGHT // 2
    if end_x - first[0] > _ACROSS:
        low, turn = y - _LANE if above else y + _LANE, (_ACROSS - WIDTH) // 2
        return (
            f"M {x} {y} C {x + turn} {y} {x} {low} {x + turn} {low} L {end_x - turn} {low} "
            f"C {end_x} {low} {end_x - turn} {end_y} {end_x} {end_y}"
        )
    bend = max(20, abs(end_x - x) // 2)
    return f"M {x} {y} C {x + bend} {y} {end_x - bend} {end_y} {end_x} {end_y}"
