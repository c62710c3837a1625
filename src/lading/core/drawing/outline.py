"""A graph as an indented list for the terminal: the sources or the users of one node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lading.core.drawing.layered import Edge

_BRANCH: Final = ("├─ ", "│  ")
_LAST: Final = ("└─ ", "   ")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineLine:
    """One line: the lines drawn before the name, the node's key, and whether the node is in an
    earlier line, where its neighbours are listed.
    """

    prefix: str
    key: str
    is_repeated: bool


def outline(start: str, neighbours: Mapping[str, Iterable[str]]) -> Iterator[OutlineLine]:
    """The nodes that can be reached from `start`, depth first; `start` itself has no line.

    A node with several ways to it has a line for each way, but its own neighbours only after the
    first one: the number of lines is at most that of the edges.
    """
    shown = {start}
    ahead = [_lines("", neighbours.get(start, ()))]
    while ahead:
        following = next(ahead[-1], None)
        if following is None:
            ahead.pop()
            continue
        prefix, below, key = following
        repeated = key in shown
        yield OutlineLine(prefix=prefix, key=key, is_repeated=repeated)
        if not repeated:
            shown.add(key)
            ahead.append(_lines(below, neighbours.get(key, ())))


def neighbours_of(edges: Iterable[Edge]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The sources of each node, and its users."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for first, second in edges:
        before.setdefault(second, []).append(first)
        after.setdefault(first, []).append(second)
    return before, after


def within(start: str, neighbours: Mapping[str, Iterable[str]], depth: int) -> set[str]:
    """The nodes at most `depth` steps from `start`, with `start`."""
    reached, ahead = {start}, [start]
    for _ in range(depth):
        ahead = [
            neighbour
            for neighbour in dict.fromkeys(o for key in ahead for o in neighbours.get(key, ()))
            if neighbour not in reached
        ]
        reached.update(ahead)
    return reached


def _lines(above: str, keys: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """The prefix of each key's line, the prefix of the lines below it, and the key."""
    some = list(keys)
    for number, key in enumerate(some, 1):
        own, below = _LAST if number == len(some) else _BRANCH
        yield above + own, above + below, key
