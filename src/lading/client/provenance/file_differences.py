"""Files of two trees that differ, by their content.

Equal files may be packed into different blocks, for example when a neighbour in the same block has
changed. Files of one size whose segments differ are therefore read and compared by their SHA-256
hashes.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lading.client.blocks import BlockClient
from lading.client.files.downloads import Progress, read_files
from lading.core.data import tree_changes
from lading.core.data.filetree import File, FileTree
from lading.core.data.tree_changes import Difference
from lading.process.concurrency import together


@dataclass(frozen=True, slots=True)
class FileDifferences:
    """The differences by path. Files in `unread` have one size in different blocks whose
    bytes were not compared: they may be equal.
    """

    differences: list[Difference]
    unread: frozenset[str] = field(default_factory=frozenset)


async def compare_files(
    blocks: BlockClient,
    before: FileTree,
    after: FileTree,
    *,
    most: int | None = None,
    progress: Progress | None = None,
) -> FileDifferences:
    """Compare all files; the smallest are read first, at most `most` bytes of both trees together
    (None: all). Raises as `BlockClient.get`.
    """
    changes = tree_changes.diff(before, after)
    unclear = sorted(_of_equal_size(changes), key=lambda pair: pair[1].size)
    read = len(unclear)
    if most is not None:
        read = _count_within([file.size for _, file, _ in unclear], most // 2)
    unread = frozenset(path for path, _, _ in unclear[read:])
    del unclear[read:]
    done, total = 0, 2 * sum(file.size for _, file, _ in unclear)

    hashes: dict[str, list[bytes]] = {}

    async def read_hashes(side: str, files: Sequence[File]) -> None:
        nonlocal done
        digests = [hashlib.sha256() for _ in files]
        async for number, piece in read_files(blocks, files):
            digests[number].update(piece)
            done += len(piece)
            if progress:
                progress(done, total)
        hashes[side] = [digest.digest() for digest in digests]

    await together(
        read_hashes("before", [file for _, file, _ in unclear]),
        read_hashes("after", [file for _, _, file in unclear]),
    )
    pairs = zip(unclear, hashes["before"], hashes["after"], strict=True)
    # Packed into other blocks, but the same bytes.
    same = {path for (path, _, _), ours, theirs in pairs if ours == theirs}
    return FileDifferences([row for row in changes if row.path not in same], unread)


def _of_equal_size(differences: Iterable[Difference]) -> Iterator[tuple[str, File, File]]:
    """Path and both files of each difference whose contents alone can tell the files apart."""
    for difference in differences:
        before, after = difference.before, difference.after
        if isinstance(before, File) and isinstance(after, File) and before.size == after.size:
            yield difference.path, before, after


def _count_within(sizes: Sequence[int], most: int) -> int:
    """How many of these sizes, from the first one, are together at most `most`."""
    sums = itertools.accumulate(sizes)
    return sum(1 for _ in itertools.takewhile(lambda total: total <= most, sums))
