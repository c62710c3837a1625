"""Layered layout of a directed graph: layers by the longest path, order within them by barycentres.

Edges that close a cycle do not count for the layers. A node without predecessors stands in the
layer before its first successor, so that its edges are short.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

# Downwards and upwards in turns; further sweeps seldom change a drawing.
_SWEEPS: Final = 6
Edge = tuple[str, str]


def layers(nodes: Sequence[str], edges: Iterable[Edge]) -> tuple[tuple[str, ...], ...]:
    """The nodes of each layer in their order. Edges between other nodes are ignored."""
    after = _successors(nodes, edges)
    order = _break_cycles(after)
    before: dict[str, list[str]] = {node: [] for node in after}
    for node, following in after.items():
        for successor in following:
            before[successor].append(node)
    stacked = _stack(after, _depths(order, after, before))
    for sweep in range(_SWEEPS):
        if sweep % 2 == 0:
            _sort(stacked, before)
        else:
            _sort(stacked[::-1], after)
    return tuple(tuple(layer) for layer in stacked)


def _successors(nodes: Sequence[str], edges: Iterable[Edge]) -> dict[str, list[str]]:
    """The successors of each node, without edges that are given twice or lead elsewhere."""
    after: dict[str, list[str]] = {node: [] for node in nodes}
    for first, second in dict.fromkeys(edges):
        if first in after and second in after:
            after[first].append(second)
    return after


def _stack(nodes: Iterable[str], depth: Mapping[str, int]) -> list[list[str]]:
    """The nodes of each depth. A depth without nodes has no layer."""
    by_depth: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in nodes:
        by_depth[depth[node]].append(node)
    return [layer for layer in by_depth if layer]


def _break_cycles(after: dict[str, list[str]]) -> list[str]:
    """Remove the edges that close a cycle; the nodes in topological order."""
    begun: set[str] = set()
    open_: set[str] = set()
    done: list[str] = []
    for start in after:
        if start in begun:
            continue
        begun.add(start)
        open_.add(start)
        stack: list[tuple[str, Iterator[str]]] = [(start, iter(list(after[start])))]
        while stack:
            node, left = stack[-1]
            following = next(left, None)
            if following is None:
                stack.pop()
                open_.remove(node)
                done.append(node)
            elif following in open_:
                after[node].remove(following)
            elif following not in begun:
                begun.add(following)
                open_.add(following)
                stack.append((following, iter(list(after[following]))))
    return done[::-1]


def _depths(
    order: Sequence[str], after: Mapping[str, Sequence[str]], before: Mapping[str, Sequence[str]]
) -> dict[str, int]:
    depth = dict.fromkeys(order, 0)
    for node in order:
        for successor in after[node]:
            depth[successor] = max(depth[successor], depth[node] + 1)
    for node in order:
        if not before[node] and after[node]:
            depth[node] = min(depth[successor] for successor in after[node]) - 1
    return depth


def _sort(stacked: Sequence[list[str]], neighbours: Mapping[str, Sequence[str]]) -> None:
    """Sort each layer by the mean place of the neighbours of its nodes."""
    position: dict[str, float] = {}
    for layer in stacked:
        for index, node in enumerate(layer):
            near = [position[neighbour] for neighbour in neighbours[node] if neighbour in position]
            position[node] = sum(near) / len(near) if near else index
        layer.sort(key=lambda node: position[node])
        position |= {node: float(index) for index, node in enumerate(layer)}
