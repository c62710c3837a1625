"""Which bytes of which files go into which block, known before any file is read (as `client.collections` packs them).

Small files are packed together in the order in which they stand, up to one full block; a directory whose files fill
less than `SHARED` shares its block with the next one. A file of more than half a block is cut into blocks of its own.
The same names and sizes give the same blocks, so that an upload that was cut off goes on with the blocks it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from lading.core import filetree
from lading.core.errors import Invalid
from lading.core.filetree import File, Segment, Tree
from lading.core.locator import MAX_BLOCK

SHARED: Final = 1 << 20


class Part(NamedTuple):
    """`length` bytes at `start` of the file with this number."""

    file: int
    start: int
    length: int


Block = tuple[Part, ...]
"""The parts that make up one block, one after another."""


def plan(files: Sequence[tuple[str, int]], *, pack: int = MAX_BLOCK) -> list[Block]:
    """The blocks of files, given by path and size in bytes; empty files are in none. `pack`: bytes of a full block."""
    blocks: list[Block] = []
    open_parts: list[Part] = []
    filled, last = 0, ""
    for number, (path, size) in enumerate(files):
        directory = path.rpartition("/")[0]
        alone = size > pack // 2
        apart = directory != last and filled >= SHARED
        if open_parts and (alone or apart or filled + size > pack):
            blocks.append(tuple(open_parts))
            open_parts, filled = [], 0
        if alone:
            blocks += [(Part(number, start, min(pack, size - start)),) for start in range(0, size, pack)]
            continue
        last = directory
        if size:
            open_parts.append(Part(number, 0, size))
            filled += size
    return [*blocks, tuple(open_parts)] if open_parts else blocks


def lay_out(paths: Sequence[str], blocks: Sequence[Block], locators: Sequence[str], *, empty: Sequence[str]) -> Tree:
    """The tree of files whose blocks are stored at these locators, with the `empty` directories.

    Raises Invalid when two paths clash.
    """
    segments: dict[int, list[Segment]] = {}
    for block, locator in zip(blocks, locators, strict=True):
        offset = 0
        for part in block:
            filetree.append(segments.setdefault(part.file, []), Segment(locator, offset, part.length))
            offset += part.length
    nodes: dict[str, filetree.Node] = {path: Tree() for path in empty}
    for number, path in enumerate(paths):
        if path in nodes:
            raise Invalid(f"{path}: two files, or a file and a directory, have this name")
        nodes[path] = File(tuple(segments.get(number, ())))
    return filetree.from_files(nodes)
