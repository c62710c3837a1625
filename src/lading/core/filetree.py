"""The files of a collection as an immutable tree, and the algebra on it (architecture, `core.filetree`).

Every function takes trees and gives a new one; untouched directories are shared. Paths are relative, with `/`
between elements and "" for the root; empty, `.` and `..` elements are refused with Invalid. Empty directories are
kept. Locators keep their signatures, and signatures never make two files differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Segment:
    """`length` bytes at `offset` of the block at `locator` (hints included)."""

    locator: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class File:
    """A file: its segments one after another."""

    segments: tuple[Segment, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return sum(segment.length for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Tree:
    """A directory: its entries by name. Never change `entries` in place."""

    entries: Mapping[str, Node] = field(default_factory=dict)


Node = File | Tree


class Change(StrEnum):
    """What happened to a path between two trees."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """One path that differs between two trees; a directory on its own only when it is empty on its side."""

    path: str
    change: Change
    before: Node | None
    after: Node | None


def from_manifest(text: str) -> Tree:
    """The tree of a manifest; adjacent segments are joined, empty ones dropped. Raises Malformed."""
    raise NotImplementedError


def to_manifest(tree: Tree) -> str:
    """The normalised manifest: directories depth first, names sorted, each block of a directory listed once."""
    raise NotImplementedError


def find(tree: Tree, path: str) -> Node | None:
    """What is at `path`, or None. Raises Invalid for a path that is none."""
    raise NotImplementedError


def get(tree: Tree, path: str) -> Node:
    """What is at `path`. Raises NotFound naming it."""
    raise NotImplementedError


def subtree(tree: Tree, path: str) -> Tree:
    """The directory at `path`. Raises NotFound, or Invalid when it is a file."""
    raise NotImplementedError


def walk(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Node]]:
    """Every path below the root with what is there: a directory before its entries, names sorted."""
    raise NotImplementedError


def files(tree: Tree) -> Iterator[tuple[str, File]]:
    """Every file with its path, in the order of `walk`."""
    raise NotImplementedError


def total_size(tree: Tree) -> int:
    """Sum of the sizes of all files, in bytes."""
    raise NotImplementedError


def from_files(nodes: Mapping[str, Node]) -> Tree:
    """The tree with the given nodes at the given paths; the quick way to make a large one. Raises Invalid on a clash."""
    raise NotImplementedError


def place(tree: Tree, path: str, node: Node) -> Tree:
    """The tree with `node` at `path` in place of what was there; parents are made.

    Raises Invalid when a parent is a file.
    """
    raise NotImplementedError


def remove(tree: Tree, path: str) -> Tree:
    """The tree without `path`; its parent stays, empty perhaps. Raises NotFound."""
    raise NotImplementedError


def copy(tree: Tree, source: str, target: str) -> Tree:
    """The tree with what is at `source` also at `target`. Raises NotFound, Invalid."""
    raise NotImplementedError


def move(tree: Tree, source: str, target: str) -> Tree:
    """The tree with what was at `source` at `target`. Raises NotFound; Invalid into itself."""
    raise NotImplementedError


def merge(tree: Tree, other: Tree) -> Tree:
    """Both trees in one: directories are joined, a file of `other` wins over one of `tree`.

    Raises Invalid where one has a file and the other a directory.
    """
    raise NotImplementedError


def diff(before: Tree, after: Tree) -> list[Difference]:
    """What differs, by path; contents are compared as bytes of blocks, signatures do not count."""
    raise NotImplementedError
