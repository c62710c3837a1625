"""Finds the blocks of collections in the files of a crate.

A collection is named by the hash of its manifest, which names blocks; a crate has files. Most
blocks consist of files that follow one another, and are made from them again. A block of which no
file has some part is kept as it is, below `blocks/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lading.core.data import filetree
from lading.core.data.filetree import FileTree


class BlockPiece(NamedTuple):
    """`length` bytes of a block: those at `position` of the file at `path`."""

    path: str
    position: int
    length: int


class _Span(NamedTuple):
    offset: int
    piece: BlockPiece


def block_sources(
    contents: Mapping[str, FileTree],
) -> tuple[dict[str, tuple[BlockPiece, ...]], tuple[str, ...]]:
    """The pieces of each block (hash and size) whose bytes are all in files, and the other blocks.

    `contents`: trees by the directories of their files in the crate.
    """
    spans: dict[str, list[_Span]] = {}
    for directory, tree in contents.items():
        for name, file in filetree.files(tree):
            at = 0
            for segment in file.segments:
                piece = BlockPiece(f"{directory}/{name}", at, segment.length)
                spans.setdefault(filetree.bare(segment.locator), []).append(
                    _Span(segment.offset, piece)
                )
                at += segment.length
    sources, missing = {}, []
    for block, some in spans.items():
        pieces = tuple(_cover(some, int(block.partition("+")[2])))
        if sum(piece.length for piece in pieces) == int(block.partition("+")[2]):
            sources[block] = pieces
        else:
            missing.append(block)
    return sources, tuple(missing)


def _cover(spans: list[_Span], size: int) -> Iterator[BlockPiece]:
    """Pieces that follow one another from the beginning of a block, as far as there are some."""
    end = 0
    for offset, (path, position, length) in sorted(spans):
        if offset > end:
            return
        skipped = end - offset
        if length > skipped:
            yield BlockPiece(path, position + skipped, length - skipped)
            end += length - skipped
        if end >= size:
            return
