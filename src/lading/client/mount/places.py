"""Nodes that a path of a mount leads to, and the lookup.

A directory whose content is on the server answers `peek` from its cache, at once, from any thread;
`find` and `list` ask the server and run in the event loop. Inside a collection everything is known:
its tree.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lading.core.data.filetree import File, FileTree

Renew = Callable[[str], Awaitable[str]]
"""Returns a locator with a new signature for one whose signature the store refuses."""


class Unknown(Exception):
    """The answer is not known without the server."""


@dataclass(frozen=True, slots=True)
class Text:
    """A small file that the mount generates."""

    content: bytes


class Directory(Protocol):
    """A directory whose names are on the server."""

    @property
    def modified(self) -> float:
        """Seconds since 1970."""
        ...

    @property
    def renew(self) -> Renew | None:
        """Renewal of signatures for the files below, if it is a collection."""
        ...

    def peek(self, name: str) -> Node | None:
        """The node with this name, None if there is none. Raises Unknown."""
        ...

    async def find(self, name: str) -> Node | None:
        """As `peek`, but asks the server if needed. Raises LadingError."""
        ...

    async def list(self) -> Mapping[str, Node]:
        """All names. Raises LadingError."""
        ...


Node = Directory | FileTree | File | Text


@dataclass(frozen=True, slots=True)
class MountPlace:
    """The end of a path. `modified` and `renew` are those of the collection or directory that
    contains it.
    """

    node: Node
    modified: float
    renew: Renew | None = None


def peek(root: Directory, path: Sequence[str]) -> MountPlace | None:
    """The place at a path, None if there is none. Raises Unknown."""
    place = MountPlace(root, root.modified, root.renew)
    for name in path:
        here = place.node
        if isinstance(here, FileTree):
            below: Node | None = here.entries.get(name)
        else:
            below = None if isinstance(here, File | Text) else here.peek(name)
        if below is None:
            return None
        place = _step(place, below)
    return place


async def find(root: Directory, path: Sequence[str]) -> MountPlace | None:
    """As `peek`, but asks the server if needed. Raises LadingError."""
    place = MountPlace(root, root.modified, root.renew)
    for name in path:
        here = place.node
        if isinstance(here, FileTree):
            below: Node | None = here.entries.get(name)
        else:
            below = None if isinstance(here, File | Text) else await here.find(name)
        if below is None:
            return None
        place = _step(place, below)
    return place


def _step(above: MountPlace, node: Node) -> MountPlace:
    if isinstance(node, FileTree | File | Text):
        return MountPlace(node, above.modified, above.renew)
    return MountPlace(node, node.modified, node.renew)
