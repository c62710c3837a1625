"""Fold a graph by the names of steps, so that a workflow of thousands of steps can be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lading.core.drawing.layered import Edge
from lading.core.drawing.step_names import step_name


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageNode:
    """A request, a collection or an image. `sealed`: the reader may not see it."""

    key: str
    kind: str
    name: str
    state: str = ""
    api_state: str = ""
    """The state by the word of the API."""
    request_uuid: str = ""
    sealed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedNode:
    """The nodes of one kind and one step; its key is that of the first one."""

    key: str
    name: str
    nodes: tuple[LineageNode, ...]

    @property
    def states(self) -> dict[str, int]:
        """The states of the nodes with their numbers."""
        found: dict[str, int] = {}
        for node in self.nodes:
            if node.state:
                found[node.state] = found.get(node.state, 0) + 1
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedGraph:
    """Folded nodes, the nearest to the start first, with their edges; `left_out` counts others."""

    nodes: tuple[FoldedNode, ...]
    edges: tuple[Edge, ...]
    left_out: int


def fold(
    nodes: Iterable[LineageNode],
    edges: Iterable[Edge],
    *,
    start: str,
    most: int,
    by_step: bool = True,
) -> FoldedGraph:
    """The graph with one node for each step: at most `most` nodes that are linked to `start`; with
    `by_step` False each node stays alone.
    """
    groups: dict[tuple[str, str], list[LineageNode]] = {}
    for node in nodes:
        name = step_name(node.name) if by_step and not node.sealed else node.key
        groups.setdefault((node.kind, name), []).append(node)
    key_of = {node.key: some[0].key for some in groups.values() for node in some}
    linked = _linked(edges, key_of)
    near = _by_distance(linked, key_of[start])
    folded = {some[0].key: _folded(some) for some in groups.values()}
    kept = near[:most]
    chosen = set(kept)
    return FoldedGraph(
        nodes=tuple(folded[key] for key in kept),
        edges=tuple(edge for edge in linked if chosen.issuperset(edge)),
        left_out=len(near) - len(kept),
    )


def _linked(edges: Iterable[Edge], key_of: Mapping[str, str]) -> dict[Edge, None]:
    """The edges between different folded nodes, each once; `key_of` has the key of each node."""
    return dict.fromkeys(
        (key_of[first], key_of[second])
        for first, second in edges
        if first in key_of and second in key_of and key_of[first] != key_of[second]
    )


def _by_distance(edges: Iterable[Edge], start: str) -> list[str]:
    beside: dict[str, list[str]] = {start: []}
    for first, second in edges:
        beside.setdefault(first, []).append(second)
        beside.setdefault(second, []).append(first)
    reached = dict.fromkeys([start])
    ahead = [start]
    while ahead:
        ahead = [
            neighbour
            for neighbour in dict.fromkeys(o for key in ahead for o in beside[key])
            if neighbour not in reached
        ]
        reached |= dict.fromkeys(ahead)
    return list(reached)


def _folded(some: list[LineageNode]) -> FoldedNode:
    name = some[0].name if len(some) == 1 else step_name(some[0].name)
    return FoldedNode(key=some[0].key, name=name, nodes=tuple(some))
