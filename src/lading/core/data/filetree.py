"""The files of a collection as an immutable tree, and operations on it.

Every function takes trees and returns a new one; untouched directories are shared. Paths are
relative, with `/` between elements and "" for the root; faults that `manifest.fault_of` names are
refused with Invalid. Empty directories are kept. Locators keep their signatures, and signatures
never make two files differ. Source: docs/spec/api, section Collections.

Collections of 100,000 files are usual. The tree of a manifest is built in one pass, without a check
of each path; segments are tuples.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

import msgspec

from lading.core.data import manifest
from lading.core.data.locator import EMPTY_BLOCK
from lading.core.errors import Invalid, Malformed, NotFound

# Names that no file can have.
_UNFIT = frozenset(("", ".", ".."))
# Span of an empty file: 0:0.
_NOTHING = ((0, 0),)
# A directory under construction. A file of several tokens is a list of segments until the end.
_Draft = dict[str, "File | list[Segment] | _Draft"]


class Segment(NamedTuple):
    """`length` bytes at `offset` of the block at `locator` (hints included)."""

    locator: str
    offset: int
    length: int


class File(msgspec.Struct, frozen=True):
    """A file: its segments one after another."""

    segments: tuple[Segment, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return sum(segment.length for segment in self.segments)


class FileTree(msgspec.Struct, frozen=True):
    """A directory: its entries by name. Never change `entries` in place."""

    entries: Mapping[str, Node] = msgspec.field(default_factory=dict)


Node = File | FileTree


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


def from_manifest(text: str) -> FileTree:
    """The tree of a manifest; adjacent segments are joined, empty ones dropped. Raises
    Malformed.
    """
    root: _Draft = {}
    for name, blocks, tokens in manifest.scan(text):
        _draft_stream(root, name[2:], blocks, tokens)
    return _finished(root)


def to_manifest(tree: FileTree) -> str:
    """The normalised manifest: directories depth first, names sorted, each block of a directory
    listed once.
    """
    lines: list[str] = []
    _write(tree, ".", lines)
    return "".join(lines)


def check_names(names: Sequence[str]) -> None:
    """Check the names of files of one directory. Raises Invalid."""
    text = "/".join(names)
    # All names in one text: there may be very many, and mostly all are valid.
    if (
        text.count("/") != len(names) - 1
        or "\0" in text
        or not _UNFIT.isdisjoint(names)
        or not text.isascii()
    ):
        for name in names:
            check_path(name)
            if "/" in name:
                raise Invalid(f"{name[:80]!r}: no name: it has a / in it")
    if names and len(max(names, key=len)) > manifest.MAX_NAME:
        check_path(max(names, key=len))


def check_path(path: str) -> None:
    """Return when `path` can name a file of a collection. Raises Invalid, for the root too."""
    if not _elements(path):
        raise Invalid("a file needs a name")


def find(tree: FileTree, path: str) -> Node | None:
    """The node at `path`, or None. Raises Invalid for an invalid path."""
    node: Node = tree
    for element in _elements(path):
        below = node.entries.get(element) if isinstance(node, FileTree) else None
        if below is None:
            return None
        node = below
    return node


def get(tree: FileTree, path: str) -> Node:
    """The node at `path`. Raises NotFound naming it."""
    node = find(tree, path)
    if node is None:
        raise NotFound(f"{path}: not in the collection")
    return node


def subtree(tree: FileTree, path: str) -> FileTree:
    """The directory at `path`. Raises NotFound, or Invalid when it is a file."""
    node = get(tree, path)
    if isinstance(node, File):
        raise Invalid(f"{path}: is a file, not a directory")
    return node


def walk(tree: FileTree, prefix: str = "") -> Iterator[tuple[str, Node]]:
    """Every path below the root with its node: a directory before its entries, names sorted."""
    for name in sorted(tree.entries):
        node, path = tree.entries[name], f"{prefix}{name}"
        yield path, node
        if isinstance(node, FileTree):
            yield from walk(node, f"{path}/")


def cut(file: File, first: int, end: int | None) -> File:
    """The bytes of a file from `first` up to, not including, `end` (None: to its end), as far as
    they exist.
    """
    segments: list[Segment] = []
    position = 0
    for segment in file.segments:
        start = max(first - position, 0)
        stop = segment.length if end is None else min(end - position, segment.length)
        if start < stop:
            segments.append(Segment(segment.locator, segment.offset + start, stop - start))
        position += segment.length
    return File(tuple(segments))


def files(tree: FileTree) -> Iterator[tuple[str, File]]:
    """Every file with its path, in the order of `walk`."""
    return ((path, node) for path, node in walk(tree) if isinstance(node, File))


def total_size(tree: FileTree) -> int:
    """Sum of the sizes of all files, in bytes."""
    return counts(tree)[1]


def counts(tree: FileTree) -> tuple[int, int]:
    """Number of files, and the sum of their sizes in bytes."""
    number = total = 0
    waiting = [tree]
    while waiting:
        for node in waiting.pop().entries.values():
            if isinstance(node, FileTree):
                waiting.append(node)
            else:
                number, total = number + 1, total + node.size
    return number, total


def from_files(nodes: Mapping[str, Node]) -> FileTree:
    """The tree with the given nodes at the given paths. Raises Invalid for conflicting paths.

    A directory among them is merged with other nodes below it.
    """
    root: dict[str, Node] = {}
    # Directories under construction, by path; only these are changed in place.
    made: dict[str, dict[str, Node]] = {"": root}
    for path, node in nodes.items():
        if isinstance(node, FileTree):
            _join(made, _elements(path), node)
        else:
            _put(made, path, node)
    return FileTree(root)


def place(tree: FileTree, path: str, node: Node) -> FileTree:
    """The tree with `node` at `path`, replacing a former node; parents are made.

    Raises Invalid when a parent is a file, or when a file is placed at the root.
    """
    return _as_tree(_place(tree, _elements(path), node), path)


def remove(tree: FileTree, path: str) -> FileTree:
    """The tree without `path`; its parent stays, empty perhaps. Raises NotFound, and Invalid for
    the root.
    """
    get(tree, path)
    return _remove(tree, _elements(path)) if path else _refuse_root()


def change(tree: FileTree, changes: Mapping[str, Node | None]) -> FileTree:
    """The tree with each path replaced by its node, or removed by None; each directory is copied
    once.

    Changes below a changed path apply to the new node. Parents are made, the root can be replaced,
    a removed path need not exist. Raises Invalid when a parent is a file.
    """
    wanted = _Change()
    for path, node in changes.items():
        change = wanted
        for element in _elements(path):
            change = change.below.setdefault(element, _Change())
        change.said, change.node = True, node
    return _as_tree(_granted(tree, wanted, "") or FileTree(), "")


def copy(tree: FileTree, source: str, target: str) -> FileTree:
    """The tree with the node at `source` also at `target`. Raises NotFound, Invalid."""
    return place(tree, target, get(tree, source))


def move(tree: FileTree, source: str, target: str) -> FileTree:
    """The tree with the node of `source` at `target`. Raises NotFound; Invalid into itself."""
    if f"{target}/".startswith(f"{source}/"):
        raise Invalid(f"{source}: cannot be moved into itself, to {target}")
    return place(remove(tree, source), target, get(tree, source))


def merge(tree: FileTree, other: FileTree) -> FileTree:
    """Both trees in one: directories are merged, a file of `other` replaces one of `tree`.

    Raises Invalid where one has a file and the other a directory.
    """
    return _merge(tree, other, "")


def diff(before: FileTree, after: FileTree) -> list[Difference]:
    """Differences by path; contents are compared as bytes of blocks, without signatures."""
    old, new = dict(_leaves(before, "")), dict(_leaves(after, ""))
    found = []
    for path in sorted(old.keys() | new.keys()):
        was, now = old.get(path), new.get(path)
        if was is None:
            found.append(Difference(path, PathChange.ADDED, None, now))
        elif now is None:
            found.append(Difference(path, PathChange.REMOVED, was, None))
        elif _content(was) != _content(now):
            found.append(Difference(path, PathChange.CHANGED, was, now))
    return found


def _draft_stream(
    root: _Draft, prefix: str, blocks: list[str], tokens: list[tuple[int, int, str]]
) -> None:
    here = _draft_directory(root, prefix.split("/")) if prefix else root
    first = blocks[0]
    # Fast path: most streams have one block, and most files one segment.
    starts = [] if len(blocks) == 1 else list(accumulate(map(manifest.size_of, blocks), initial=0))
    for position, length, name in tokens:
        folder = here
        if "/" in name:
            *above, name = name.split("/")
            folder = _draft_directory(here, above)
        # A placeholder for an empty directory, which the tree keeps without it.
        elif name == manifest.EMPTY_DIRECTORY:
            continue
        if starts:
            pieces = tuple(_cut(blocks, starts, position, length))
        else:
            pieces = (Segment(first, position, length),) if length else ()
        known = folder.get(name)
        if known is None:
            folder[name] = File(pieces)
        else:
            _draft_part(folder, name, known, pieces)


def _draft_part(
    folder: _Draft, name: str, known: File | list[Segment] | _Draft, pieces: tuple[Segment, ...]
) -> None:
    if isinstance(known, dict):
        raise _clash(name)
    if isinstance(known, File):
        known = folder[name] = list(known.segments)
    for piece in pieces:
        append(known, piece)


def _draft_directory(here: _Draft, elements: list[str]) -> _Draft:
    for element in elements:
        below = here.setdefault(element, {})
        if not isinstance(below, dict):
            raise _clash(element)
        here = below
    return here


def _finished(draft: _Draft) -> FileTree:
    entries: dict[str, Node] = {}
    for name, one in draft.items():
        if isinstance(one, dict):
            entries[name] = _finished(one)
        else:
            entries[name] = one if isinstance(one, File) else File(tuple(one))
    return FileTree(entries)


def _clash(name: str) -> Malformed:
    return Malformed(f"manifest: {name[:80]!r} is both a file and a directory")


def bare(locator: str) -> str:
    """Hash and size of a locator: the block without hints."""
    # 32 characters of hash and "+" precede the size; a hint follows it.
    end = locator.find("+", 33)
    return locator if end < 0 else locator[:end]


def _cut(blocks: list[str], starts: list[int], position: int, length: int) -> Iterator[Segment]:
    """Segments of a file in the order of its blocks, not joined."""
    # The block that contains `position`.
    at = bisect_right(starts, position) - 1
    while length > 0:
        offset = position - starts[at]
        taken = min(length, starts[at + 1] - position)
        if taken > 0:
            yield Segment(blocks[at], offset, taken)
        position, length, at = position + taken, length - taken, at + 1


def append(segments: list[Segment], segment: Segment) -> None:
    """Append a segment to those of a file, joined with the last one when it continues in the same
    block.
    """
    last = segments[-1] if segments else None
    if last and last.locator == segment.locator and last.offset + last.length == segment.offset:
        segments[-1] = Segment(last.locator, last.offset, last.length + segment.length)
    else:
        segments.append(segment)


def _write(tree: FileTree, name: str, lines: list[str], depth: int = 0) -> None:
    if depth >= manifest.MAX_DEPTH and tree.entries:
        raise Invalid(
            f"{name[2:82]!r}...: a path has at most {manifest.MAX_DEPTH} names; make it less deep"
        )
    names = sorted(tree.entries)
    here = [(entry, node) for entry in names if isinstance(node := tree.entries[entry], File)]
    if here:
        lines.append(_stream(name, here))
    # Not for the root: the empty manifest is the empty text.
    elif not names and name != ".":
        lines.append(f"{manifest.escape(name)} {EMPTY_BLOCK} 0:0:\\056\n")
    for entry in names:
        node = tree.entries[entry]
        if isinstance(node, FileTree):
            _write(node, f"{name}/{entry}", lines, depth + 1)


def _stream(name: str, here: list[tuple[str, File]]) -> str:
    blocks: list[str] = []
    starts: dict[str, int] = {}
    # Positions by the full locators, so that most locators need not be cut to be found.
    known: dict[str, int] = {}
    end, tokens = 0, []
    for entry, file in here:
        spans: list[tuple[int, int]] = []
        for locator, offset, length in file.segments:
            first = known.get(locator)
            if first is None:
                key = bare(locator)
                if key not in starts:
                    blocks.append(locator)
                    starts[key], end = end, end + manifest.size_of(key)
                first = known[locator] = starts[key]
            start = first + offset
            # Adjacent bytes become one token.
            if spans and sum(spans[-1]) == start:
                spans[-1] = (spans[-1][0], spans[-1][1] + length)
            else:
                spans.append((start, length))
        escaped = manifest.escape(entry)
        for start, length in spans or _NOTHING:
            tokens.append(f"{start}:{length}:{escaped}")
    return " ".join((manifest.escape(name), *(blocks or [EMPTY_BLOCK]), *tokens)) + "\n"


def _elements(path: str) -> list[str]:
    if not path:
        return []
    fault = manifest.fault_of(path)
    if fault:
        raise Invalid(
            f"{path[:80]!r}: no path: {fault}; "
            "write names with / between them and none at either end"
        )
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"{path[:80]!r}: the name is not UTF-8; rename it") from error
    return path.split("/")


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


def _put(made: dict[str, dict[str, Node]], path: str, file: File) -> None:
    elements = _elements(path)
    if not elements:
        raise Invalid("a file cannot stand for the root of a collection")
    parent = _directory(made, elements[:-1])
    if elements[-1] in parent:
        raise _taken(path)
    parent[elements[-1]] = file


def _join(made: dict[str, dict[str, Node]], elements: list[str], tree: FileTree) -> None:
    """Merge a tree, whose names were checked when it was made, into the directory at `elements`."""
    entries = _directory(made, elements)
    files = {name: node for name, node in tree.entries.items() if isinstance(node, File)}
    clashes = entries.keys() & files.keys()
    if clashes:
        raise _taken("/".join([*elements, min(clashes)]))
    entries |= files
    for name, node in tree.entries.items():
        if isinstance(node, FileTree):
            _join(made, [*elements, name], node)


def _taken(path: str) -> Invalid:
    return Invalid(f"{path}: two files, or a file and a directory, have this name")


def _directory(made: dict[str, dict[str, Node]], elements: list[str]) -> dict[str, Node]:
    path = "/".join(elements)
    entries = made.get(path)
    if entries is None:
        parent = _directory(made, elements[:-1])
        if elements[-1] in parent:
            raise Invalid(f"{path}: a file and a directory have this name")
        entries = made[path] = {}
        parent[elements[-1]] = FileTree(entries)
    return entries


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

    said: bool = False
    node: Node | None = None
    below: dict[str, _Change] = msgspec.field(default_factory=dict)


# Applies the changes of one directory at a time, so each directory is copied once.
def _granted(node: Node | None, change: _Change, path: str) -> Node | None:
    node = change.node if change.said else node
    if not change.below:
        return node
    if isinstance(node, File):
        # Removing something below a file is already done.
        if _only_removes(change):
            return node
        raise Invalid(f"{path}: is a file; nothing can be placed below it")
    entries = dict(node.entries) if node is not None else {}
    for name, one in change.below.items():
        found = _granted(entries.get(name), one, f"{path}/{name}" if path else name)
        if found is None:
            entries.pop(name, None)
        else:
            entries[name] = found
    # Removing an absent path makes no directories.
    return FileTree(entries) if node is not None or entries or change.said else None


def _only_removes(change: _Change) -> bool:
    return all(one.said and one.node is None and not one.below for one in change.below.values())


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


def _merge(tree: FileTree, other: FileTree, prefix: str) -> FileTree:
    entries = dict(tree.entries)
    for name, new in other.entries.items():
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
