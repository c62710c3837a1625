"""What a path of a mount can lead to, and the way there.

A directory that the server decides on answers `peek` from what it knows, at once, from any thread;
`find` and `list` ask the server and belong to the event loop. Inside a collection everything is
known: its tree.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lading.core.data.filetree import File, Tree

Renew = Callable[[str], Awaitable[str]]
"""Gives a locator with a new signature for one whose signature the store refuses."""


class Unknown(Exception):
    """What is asked is not known without the server."""


@dataclass(frozen=True, slots=True)
class Text:
    """A small file that is made here."""

    content: bytes


class Directory(Protocol):
    """A directory whose names the server decides on."""

    @property
    def modified(self) -> float:
        """Seconds since 1970."""
        ...

    @property
    def renew(self) -> Renew | None:
        """For the files below, when it is a collection."""
        ...

    def peek(self, name: str) -> Node | None:
        """The node of that name, None when there is none. Raises Unknown."""
        ...

    async def find(self, name: str) -> Node | None:
        """As `peek`, asking the server where need be. Raises LadingError."""
        ...

    async def list(self) -> Mapping[str, Node]:
        """All names. Raises LadingError."""
        ...


Node = Directory | Tree | File | Text


@dataclass(frozen=True, slots=True)
class Place:
    """The end of a path. `modified` and `renew` are those of the collection or directory that it
    lies in.
    """

    node: Node
    modified: float
    renew: Renew | None = None


def peek(root: Directory, path: Sequence[str]) -> Place | None:
    """What is at a path, None when nothing is. Raises Unknown."""
    place = Place(root, root.modified, root.renew)
    for name in path:
        here = place.node
        if isinstance(here, Tree):
            below: Node | None = here.entries.get(name)
        else:
            below = None if isinstance(here, File | Text) else here.peek(name)
        if below is None:
            return None
        place = _step(place, below)
    return place


async def find(root: Directory, path: Sequence[str]) -> Place | None:
    """As `peek`, asking the server where need be. Raises LadingError."""
    place = Place(root, root.modified, root.renew)
    for name in path:
        here = place.node
        if isinstance(here, Tree):
            below: Node | None = here.entries.get(name)
        else:
            below = None if isinstance(here, File | Text) else await here.find(name)
        if below is None:
            return None
        place = _step(place, below)
    return place


def _step(above: Place, node: Node) -> Place:
    if isinstance(node, Tree | File | Text):
        return Place(node, above.modified, above.renew)
    return Place(node, node.modified, node.renew)
