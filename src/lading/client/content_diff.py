"""Comparison of two trees of stored files by content.

Equal files may be packed into different blocks, for example when a neighbour in the same block has
changed. Files of one size whose segments differ are therefore read and compared by their SHA-256
hashes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

from lading.client.blocks import BlockClient
from lading.client.collections import Progress, read_files
from lading.core.data import filetree
from lading.core.data.filetree import Difference, File, Tree


async def compare(
    blocks: BlockClient, before: Tree, after: Tree, *, progress: Progress | None = None
) -> list[Difference]:
    """The differences, by path. Raises as `BlockClient.get`."""
    found = filetree.diff(before, after)
    unclear = [
        (one.path, one.before, one.after)
        for one in found
        if isinstance(one.before, File)
        and isinstance(one.after, File)
        and one.before.size == one.after.size
    ]
    # Both versions of each file are read.
    total, done = 2 * sum(file.size for _, file, _ in unclear), 0

    def advance(size: int) -> None:
        nonlocal done
        done += size
        if progress:
            progress(done, total)

    async def digests(files: Sequence[File]) -> list[bytes]:
        hashes = [hashlib.sha256() for _ in files]
        async for number, piece in read_files(blocks, files):
            hashes[number].update(piece)
            advance(len(piece))
        return [one.digest() for one in hashes]

    async with asyncio.TaskGroup() as group:
        old = group.create_task(digests([file for _, file, _ in unclear]))
        new = group.create_task(digests([file for _, _, file in unclear]))
    pairs = zip(unclear, old.result(), new.result(), strict=True)
    same = {path for (path, _, _), ours, theirs in pairs if ours == theirs}
    return [one for one in found if one.path not in same]
