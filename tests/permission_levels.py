"""Levels of access found the slow way: by walking every path. What the real thing is compared
with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from lading.core.ids import is_user
from lading.core.records.permissions import Level


def search(
    user: str, owners: Mapping[str, str], links: Mapping[tuple[str, str], int]
) -> dict[str, int]:
    """The level of a user on everything: `owners` of groups, and levels of links by (tail,
    head).
    """
    edges: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for (tail, head), level in links.items():
        edges[tail].append((head, level))
    for owned, owner in owners.items():
        edges[owner].append((owned, Level.MANAGE))
    best: dict[str, int] = {}
    waiting = [(user, int(Level.MANAGE), frozenset({user}))]
    while waiting:
        node, level, path = waiting.pop()
        best[node] = max(level, best.get(node, 0))
        if is_user(node) and node != user and level < Level.MANAGE:
            continue
        waiting += [
            (head, min(level, given), path | {head})
            for head, given in edges[node]
            if head not in path
        ]
    return best
