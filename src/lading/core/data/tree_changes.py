"""Changes of the tree of a collection: places, removals, moves, merges; differences of two trees.

Every function returns a new tree; untouched directories are shared. Paths are as in `filetree`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from lading.core.data.filetree import File, FileTree, Node, Segment, append, bare, get, split_path
from lading.core.errors import Invalid


class PathChange(StrEnum):
    """Kind of difference at a path between two trees."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class Difference(msgspec.Struct, frozen=True):
    """One path that differs between two trees; a directory is listed only when it is empty."""

    path: str
    change: PathChange
    before: Node | None
    after: Node | None


def place(tree: FileTree, path: str, node: Node) -> FileTree:
    """The tree with `node` at `path`, replacing a former node; parents are made.

    Raises Invalid when a parent is a file, or when a file is placed at the root.
    """
    return _as_tree(_place(tree, split_path(path), node), path)


def remove(tree: FileTree, path: str) -> FileTree:
    """The tree without `path`; its parent stays, empty perhaps. Raises NotFound, and Invalid for
    the root.
    """
    get(tree, path)
    return _remove(tree, split_path(path)) if path else _refuse_root()


def change(tree: FileTree, changes: Mapping[str, Node | None]) -> FileTree:
    """The tree with each path replaced by its node, or removed by None; each directory is copied
    once.

    Changes below a changed path apply to the new node. Parents are made, the root can be replaced,
    a removed path need not exist. Raises Invalid when a parent is a file.
    """
    root = _Change()
    for path, node in changes.items():
        change = root
        for element in split_path(path):
            change = change.below.setdefault(element, _Change())
        change.is_set, change.node = True, node
    return _as_tree(_granted(tree, root, "") or FileTree(), "")


def copy(tree: FileTree, source: str, target: str) -> FileTree:
    """The tree with the node at `source` also at `target`. Raises NotFound, Invalid."""
    return place(tree, target, get(tree, source))


def move(tree: FileTree, source: str, target: str) -> FileTree:
    """The tree with the node of `source` at `target`. Raises NotFound; Invalid into itself."""
    if f"{target}/".startswith(f"{source}/"):
        raise Invalid(f"{source}: cannot be moved into itself, to {target}")
    return place(remove(tree, source), target, get(tree, source))


def merge(tree: FileTree, overlay: FileTree) -> FileTree:
    """Both trees in one: directories are merged, a file of `overlay` replaces one of `tree`.

    Raises Invalid where one has a file and the other a directory.
    """
    return _merge(tree, overlay, "")


def diff(before: FileTree, after: FileTree) -> list[Difference]:
    """Differences by path; contents are compared as bytes of blocks, without signatures."""
    old, new = dict(_leaves(before, "")), dict(_leaves(after, ""))
    differences = []
    for path in sorted(old.keys() | new.keys()):
        was, now = old.get(path), new.get(path)
        if was is None:
            differences.append(Difference(path, PathChange.ADDED, None, now))
        elif now is None:
            differences.append(Difference(path, PathChange.REMOVED, was, None))
        elif _content(was) != _content(now):
            differences.append(Difference(path, PathChange.CHANGED, was, now))
    return differences


def _leaves(tree: FileTree, prefix: str) -> Iterator[tuple[str, Node]]:
    """Files and empty directories below `prefix`, without an empty root."""
    if not tree.entries and prefix:
        yield prefix, tree
    for name in sorted(tree.entries):
        node, path = tree.entries[name], f"{prefix}/{name}" if prefix else name
        if isinstance(node, FileTree):
            yield from _leaves(node, path)
        else:
            yield path, node


# Copies the directories on the way down; everything beside it is shared with the old tree.
def _place(node: Node | None, elements: list[str], new: Node) -> Node:
    if not elements:
        return new
    if isinstance(node, File):
        raise Invalid(f"{elements[0]}: cannot be placed below a file")
    entries = {} if node is None else node.entries
    name, rest = elements[0], elements[1:]
    return FileTree({**entries, name: _place(entries.get(name), rest, new)})


class _Change(msgspec.Struct):
    """Requested change at one path: `node` if `said`, and further changes below."""

    is_set: bool = False
    node: Node | None = None
    below: dict[str, _Change] = msgspec.field(default_factory=dict)


# Applies the changes of one directory at a time, so each directory is copied once.
def _granted(node: Node | None, change: _Change, path: str) -> Node | None:
    node = change.node if change.is_set else node
    if not change.below:
        return node
    if isinstance(node, File):
        # Removing something below a file is already done.
        if _only_removes(change):
            return node
        raise Invalid(f"{path}: is a file; nothing can be placed below it")
    entries = dict(node.entries) if node is not None else {}
    for name, child in change.below.items():
        replaced = _granted(entries.get(name), child, f"{path}/{name}" if path else name)
        if replaced is None:
            entries.pop(name, None)
        else:
            entries[name] = replaced
    # Removing an absent path makes no directories.
    return FileTree(entries) if node is not None or entries or change.is_set else None


def _only_removes(change: _Change) -> bool:
    return all(
        child.is_set and child.node is None and not child.below for child in change.below.values()
    )


def _as_tree(node: Node, path: str) -> FileTree:
    if isinstance(node, File):
        raise Invalid(f"{path!r}: a file cannot stand for the root of a collection")
    return node


def _remove(tree: FileTree, elements: list[str]) -> FileTree:
    name, rest = elements[0], elements[1:]
    if not rest:
        return FileTree({key: node for key, node in tree.entries.items() if key != name})
    below = _as_tree(tree.entries[name], name)
    return FileTree({**tree.entries, name: _remove(below, rest)})


def _refuse_root() -> FileTree:
    raise Invalid("the root of a collection cannot be removed")


def _merge(tree: FileTree, overlay: FileTree, prefix: str) -> FileTree:
    entries = dict(tree.entries)
    for name, new in overlay.entries.items():
        old, path = entries.get(name), f"{prefix}{name}"
        if isinstance(old, FileTree) and isinstance(new, FileTree):
            # Both are directories: merged. Otherwise the newer file replaces the older.
            entries[name] = _merge(old, new, f"{path}/")
        elif old is None or type(old) is type(new):
            entries[name] = new
        else:
            raise Invalid(f"{path}: a file in one collection and a directory in the other")
    return FileTree(entries)


# Comparable form of a node: None for a directory, joined segments without signatures for a file.
def _content(node: Node) -> tuple[tuple[str, int, int], ...] | None:
    if isinstance(node, FileTree):
        return None
    joined: list[Segment] = []
    for segment in node.segments:
        if segment.length:
            append(joined, Segment(bare(segment.locator), segment.offset, segment.length))
    return tuple((segment.locator, segment.offset, segment.length) for segment in joined)
