"""Storage used by collections: sizes of their files, of their blocks, and of shared blocks.

Finds the files of a collection that have bytes of a given block, for reports of damaged or
missing blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from lading.core.data import filetree, manifest
from lading.core.data.filetree import File, Node
from lading.core.data.manifest import size_of


@dataclass(frozen=True, slots=True)
class BlockUsage:
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
    users = Counter(block for one in blocks for block in one)
    each = [
        BlockUsage(
            *_files(node),
            stored=_size(mine),
            shared=_size({block for block in mine if users[block] > 1}),
        )
        for node, mine in zip(nodes, blocks, strict=True)
    ]
    return each, BlockUsage(
        files=sum(one.files for one in each),
        logical=sum(one.logical for one in each),
        stored=_size(set(users)),
        shared=_size({block for block, count in users.items() if count > 1}),
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


def _size(blocks: set[str]) -> int:
    return sum(map(size_of, blocks))


def files_with(text: str, hash: str) -> list[str]:
    """Sorted paths of all files of a manifest that have bytes of the block. Raises Malformed."""
    found = set()
    for stream in manifest.parse(text).streams:
        ends = list(accumulate(int(locator.split("+")[1]) for locator in stream.locators))
        spans = [
            (begin, end)
            for begin, end, locator in zip([0, *ends[:-1]], ends, stream.locators, strict=True)
            if locator.startswith(hash)
        ]
        for token in stream.files:
            last = token.position + token.length
            if token.length and any(begin < last and token.position < end for begin, end in spans):
                found.add(f"{stream.name}/{token.name}".removeprefix("./"))
    return sorted(found)
