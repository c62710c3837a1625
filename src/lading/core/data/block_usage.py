"""How much room collections take: what their files come to, what their blocks do, and what several
of them share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lading.core.data import filetree
from lading.core.data.filetree import File, Node
from lading.core.data.manifest import size_of


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes: of all files, of the distinct blocks they are in, and of those of the blocks that
    others use too.
    """

    files: int
    logical: int
    stored: int
    shared: int


def usage_of(nodes: Sequence[Node]) -> tuple[list[Usage], Usage]:
    """The usage of each, and of all together; of all together `shared` is what more than one of
    them uses.

    A block is counted whole where any byte of it is used, once.
    """
    blocks = [_blocks(node) for node in nodes]
    users = Counter(block for one in blocks for block in one)
    each = [
        Usage(
            *_files(node),
            stored=_size(mine),
            shared=_size({block for block in mine if users[block] > 1}),
        )
        for node, mine in zip(nodes, blocks, strict=True)
    ]
    return each, Usage(
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
