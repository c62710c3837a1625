"""Sharing of blocks by files: packing for an upload, storage used by collections, files of a block.

`plan` packs files before any is read; `client.files.collections` packs in the same way:

- Small files are packed together in their order, up to one full block; a directory whose files fill
  less than `SHARED` shares its block with the next one. A file of more than half a block gets
  blocks of its own. The same names and sizes give the same blocks, so an interrupted upload
  continues with its existing blocks.
- A million files are usual. They are numbered in the order of a manifest: the files of a directory,
  sorted by name, before its subdirectories. So a block is a range of numbers, and the manifest is
  written in one pass, in pieces: nothing grows with the number of files.

`usage_of` adds up the bytes of files, of blocks, and of blocks shared between collections.
`files_with` finds the files in a damaged or missing block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec

from lading.core.data import filetree, manifest
from lading.core.data.filetree import File, Node, bare
from lading.core.data.locator import EMPTY_BLOCK, MAX_BLOCK
from lading.core.data.manifest import size_of

# Bytes. A directory with at least so much gets blocks of its own, so that reading it reads no
# others.
SHARED: Final = 1 << 20


class PackedBlock(NamedTuple):
    """`length` bytes at `start` of the file `first`; or all bytes of the files from `first` up to,
    not including, `end`.
    """

    first: int
    end: int
    start: int
    length: int

    @property
    def is_packed(self) -> bool:
        """Whether it contains more than one file."""
        return self.end - self.first > 1


class PackedDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """Some files of one directory, or the directory itself when it is empty.

    The files have the numbers from `first` on; all files of the directory those from `begin` up to,
    not including, `end`. `has_data`: some file of the directory has a byte.
    """

    path: str
    names: Sequence[str]
    sizes: Sequence[int]
    first: int
    begin: int
    end: int
    has_data: bool


def plan(files: Iterable[tuple[str, int]], *, pack: int = MAX_BLOCK) -> Iterator[PackedBlock]:
    """The blocks of files, given by directory and size in bytes; empty files are in none. `pack`:
    bytes of a full block.
    """
    first = end = filled = 0
    last = ""
    for number, (directory, size) in enumerate(files):
        alone = size > pack // 2
        apart = directory != last and filled >= SHARED
        if filled and (alone or apart or filled + size > pack):
            yield PackedBlock(first, end, 0, filled)
            filled = 0
        if alone:
            for start in range(0, size, pack):
                yield PackedBlock(number, number + 1, start, min(pack, size - start))
            continue
        last = directory
        if size:
            first, end = number if not filled else first, number + 1
            filled += size
    if filled:
        yield PackedBlock(first, end, 0, filled)


def write_manifest(
    folders: Iterable[PackedDirectory], blocks: Sequence[PackedBlock], locators: Sequence[str]
) -> Iterator[str]:
    """The normalised manifest of files whose blocks are stored at these locators, in pieces.

    The folders come in the order of their numbers. The text equals that of `filetree.to_manifest`
    for the same files.
    """
    layout, is_open = _Layout(blocks, locators), False
    for folder in folders:
        # A directory of many files comes in several folders; the first one begins its line.
        if folder.first == folder.begin:
            if is_open:
                yield "\n"
            name = manifest.escape(f"./{folder.path}" if folder.path else ".")
            if not folder.names:
                yield f"{name} {EMPTY_BLOCK} 0:0:\\056\n"
                is_open = False
                continue
            is_open = True
            yield " ".join((name, *layout.enter(folder)))
        yield layout.tokens(folder)
    if is_open:
        yield "\n"


class _Layout:
    """Positions of the files in the stream of their directory. The files must be requested in
    order.
    """

    def __init__(self, blocks: Sequence[PackedBlock], locators: Sequence[str]) -> None:
        self._blocks = blocks
        self._locators = locators
        self._at = 0
        self._used = 0
        self._starts: dict[str, int] = {}

    def enter(self, folder: PackedDirectory) -> list[str]:
        """The locators of a directory's stream, each once; the empty block's when its files have no
        bytes.
        """
        self._starts, locators, end = {}, list[str](), 0
        number = self._at
        while (
            folder.has_data
            and number < len(self._blocks)
            and self._blocks[number].first < folder.end
        ):
            locator = self._locators[number]
            # Equal blocks are listed once.
            if (key := bare(locator)) not in self._starts:
                locators.append(locator)
                self._starts[key], end = end, end + manifest.size_of(key)
            number += 1
        return locators or [EMPTY_BLOCK]

    def tokens(self, folder: PackedDirectory) -> str:
        """The file tokens of some files, each after a blank."""
        parts = []
        for name, size in zip(folder.names, folder.sizes, strict=True):
            escaped = manifest.escape(name)
            for start, length in self._spans(size):
                parts.append(f" {start}:{length}:{escaped}")
        return "".join(parts)

    def _spans(self, size: int) -> list[tuple[int, int]]:
        if not size:
            return [(0, 0)]
        spans: list[tuple[int, int]] = []
        while size:
            block = self._blocks[self._at]
            length = min(size, block.length - self._used)
            start = self._starts[bare(self._locators[self._at])] + self._used
            # Adjacent bytes become one token.
            if spans and sum(spans[-1]) == start:
                spans[-1] = (spans[-1][0], spans[-1][1] + length)
            else:
                spans.append((start, length))
            size, self._used = size - length, self._used + length
            if self._used == block.length:
                self._at, self._used = self._at + 1, 0
        return spans


class BlockUsage(msgspec.Struct, frozen=True):
    """Bytes: of all files, of their distinct blocks, and of the blocks that others use too."""

    files: int
    logical: int
    stored: int
    shared: int


def usage_of(nodes: Sequence[Node]) -> tuple[list[BlockUsage], BlockUsage]:
    """Usage of each node, and of all together, whose `shared` is used by more than one of them.

    A used block counts with its whole size, once.
    """
    blocks = [_blocks(node) for node in nodes]
    users = Counter(block for used in blocks for block in used)
    each = [
        BlockUsage(
            *_files(node),
            stored=sizes_of(mine),
            shared=sizes_of({block for block in mine if users[block] > 1}),
        )
        for node, mine in zip(nodes, blocks, strict=True)
    ]
    return each, BlockUsage(
        files=sum(usage.files for usage in each),
        logical=sum(usage.logical for usage in each),
        stored=sizes_of(set(users)),
        shared=sizes_of({block for block, count in users.items() if count > 1}),
    )


def _files(node: Node) -> tuple[int, int]:
    sizes = (
        [node.size] if isinstance(node, File) else [file.size for _, file in filetree.files(node)]
    )
    return len(sizes), sum(sizes)


def _blocks(node: Node) -> set[str]:
    files = [node] if isinstance(node, File) else [file for _, file in filetree.files(node)]
    return {
        filetree.bare(locator)
        for locator in {segment.locator for file in files for segment in file.segments}
    }


def blocks_of(manifest_text: str) -> set[str]:
    """The distinct blocks of a manifest, without hints."""
    return {bare(locator) for locator in manifest.locators(manifest_text)}


def sizes_of(blocks: Iterable[str]) -> int:
    """Bytes of these blocks."""
    return sum(map(size_of, blocks))


def usage_of_groups(groups: Mapping[str, set[str]]) -> tuple[dict[str, int], int]:
    """Bytes of the blocks of each group that no other group has, and of all blocks, each once."""
    users = Counter(block for blocks in groups.values() for block in blocks)
    own = {
        name: sizes_of(block for block in blocks if users[block] == 1)
        for name, blocks in groups.items()
    }
    return own, sizes_of(users)


def files_with(manifest_text: str, hash: str) -> list[str]:
    """Sorted paths of all files of a manifest that have bytes of the block. Raises Malformed."""
    paths = set()
    for stream in manifest.parse(manifest_text).streams:
        ends = list(accumulate(int(locator.split("+")[1]) for locator in stream.locators))
        spans = [
            (begin, end)
            for begin, end, locator in zip([0, *ends[:-1]], ends, stream.locators, strict=True)
            if locator.startswith(hash)
        ]
        for token in stream.files:
            last = token.position + token.length
            if token.length and any(begin < last and token.position < end for begin, end in spans):
                paths.add(f"{stream.name}/{token.name}".removeprefix("./"))
    return sorted(paths)
