"""The files of a collection as an immutable tree: made, read, searched; `tree_changes` changes it.

Functions return a new tree; untouched directories are shared. Paths are relative, with `/` between
elements and "" for the root; faults that `manifest.fault_of` names are refused with Invalid. Empty
directories are kept. Locators keep their signatures, and signatures never make two files differ.
Source: docs/spec/api, section Collections.

Collections of 100,000 files are usual. The tree of a manifest is built in one pass, without a check
of each path; segments are tuples.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
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


def from_manifest(manifest_text: str) -> FileTree:
    """The tree of a manifest; adjacent segments are joined, empty ones dropped. Raises
    Malformed.
    """
    root: _Draft = {}
    for name, blocks, tokens in manifest.scan(manifest_text):
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
    joined = "/".join(names)
    # All names in one text: there may be very many, and mostly all are valid.
    if (
        joined.count("/") != len(names) - 1
        or "\0" in joined
        or not _UNFIT.isdisjoint(names)
        or not joined.isascii()
    ):
        for name in names:
            check_path(name)
            if "/" in name:
                raise Invalid(f"{name[:80]!r}: no name: it has a / in it")
    if names and len(max(names, key=len)) > manifest.MAX_NAME:
        check_path(max(names, key=len))


def check_path(path: str) -> None:
    """Return when `path` can name a file of a collection. Raises Invalid, for the root too."""
    if not split_path(path):
        raise Invalid("a file needs a name")


def find(tree: FileTree, path: str) -> Node | None:
    """The node at `path`, or None. Raises Invalid for an invalid path."""
    node: Node = tree
    for element in split_path(path):
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
            _join(made, split_path(path), node)
        else:
            _put(made, path, node)
    return FileTree(root)


def _draft_stream(
    root: _Draft, prefix: str, blocks: list[str], tokens: list[tuple[int, int, str]]
) -> None:
    directory = _draft_directory(root, prefix.split("/")) if prefix else root
    first = blocks[0]
    # Fast path: most streams have one block, and most files one segment.
    starts = [] if len(blocks) == 1 else list(accumulate(map(manifest.size_of, blocks), initial=0))
    for position, length, name in tokens:
        folder = directory
        if "/" in name:
            *above, name = name.split("/")
            folder = _draft_directory(directory, above)
        # A placeholder for an empty directory, which the tree keeps without it.
        elif name == manifest.EMPTY_DIRECTORY:
            continue
        if starts:
            pieces = tuple(_cut(blocks, starts, position, length))
        else:
            pieces = (Segment(first, position, length),) if length else ()
        existing = folder.get(name)
        if existing is None:
            folder[name] = File(pieces)
        else:
            _draft_part(folder, name, existing, pieces)


def _draft_part(
    folder: _Draft, name: str, existing: File | list[Segment] | _Draft, pieces: tuple[Segment, ...]
) -> None:
    if isinstance(existing, dict):
        raise _clash(name)
    if isinstance(existing, File):
        existing = folder[name] = list(existing.segments)
    for piece in pieces:
        append(existing, piece)


def _draft_directory(directory: _Draft, elements: list[str]) -> _Draft:
    for element in elements:
        below = directory.setdefault(element, {})
        if not isinstance(below, dict):
            raise _clash(element)
        directory = below
    return directory


def _finished(draft: _Draft) -> FileTree:
    entries: dict[str, Node] = {}
    for name, node in draft.items():
        if isinstance(node, dict):
            entries[name] = _finished(node)
        else:
            entries[name] = node if isinstance(node, File) else File(tuple(node))
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


def _stream(name: str, entries: list[tuple[str, File]]) -> str:
    blocks: list[str] = []
    starts: dict[str, int] = {}
    # Positions by the full locators, so that most locators need not be cut to be found.
    start_of: dict[str, int] = {}
    end, tokens = 0, []
    for entry, file in entries:
        spans: list[tuple[int, int]] = []
        for locator, offset, length in file.segments:
            first = start_of.get(locator)
            if first is None:
                key = bare(locator)
                if key not in starts:
                    blocks.append(locator)
                    starts[key], end = end, end + manifest.size_of(key)
                first = start_of[locator] = starts[key]
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


def split_path(path: str) -> list[str]:
    """The names in a path, none for the root. Raises Invalid for a path that no file can have."""
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


def _put(directories: dict[str, dict[str, Node]], path: str, file: File) -> None:
    elements = split_path(path)
    if not elements:
        raise Invalid("a file cannot stand for the root of a collection")
    parent = _directory(directories, elements[:-1])
    if elements[-1] in parent:
        raise _taken(path)
    parent[elements[-1]] = file


def _join(directories: dict[str, dict[str, Node]], elements: list[str], tree: FileTree) -> None:
    """Merge a tree, whose names were checked when it was made, into the directory at `elements`."""
    entries = _directory(directories, elements)
    files = {name: node for name, node in tree.entries.items() if isinstance(node, File)}
    clashes = entries.keys() & files.keys()
    if clashes:
        raise _taken("/".join([*elements, min(clashes)]))
    entries |= files
    for name, node in tree.entries.items():
        if isinstance(node, FileTree):
            _join(directories, [*elements, name], node)


def _taken(path: str) -> Invalid:
    return Invalid(f"{path}: two files, or a file and a directory, have this name")


def _directory(directories: dict[str, dict[str, Node]], elements: list[str]) -> dict[str, Node]:
    path = "/".join(elements)
    entries = directories.get(path)
    if entries is None:
        parent = _directory(directories, elements[:-1])
        if elements[-1] in parent:
            raise Invalid(f"{path}: a file and a directory have this name")
        entries = directories[path] = {}
        parent[elements[-1]] = FileTree(entries)
    return entries
