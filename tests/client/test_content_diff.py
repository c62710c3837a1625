"""Files that are packed into other blocks are compared by their bytes."""

from __future__ import annotations

from lading.cli.files.comparing import compare
from lading.client.blocks import BlockClient
from lading.client.collections import CollectionWriter
from lading.core.data.filetree import FileTree, PathChange
from lading.testing.blocks import BlockStore


async def _stored(blocks: BlockClient, **files: bytes) -> FileTree:
    async with CollectionWriter(blocks) as writer:
        for path, data in files.items():
            await writer.add_bytes(path, data)
        return await writer.finish_tree()


async def test_only_what_has_another_content_differs() -> None:
    blocks = BlockStore().client
    before = await _stored(blocks, a=b"aaa", b=b"bbb", c=b"c", gone=b"g", empty=b"")
    after = await _stored(blocks, a=b"aaa", b=b"BBB", c=b"cc", new=b"n", empty=b"")
    steps: list[tuple[int, int]] = []
    found = await compare(
        blocks, before, after, progress=lambda done, total: steps.append((done, total))
    )
    assert [(one.path, one.change) for one in found] == [
        ("b", PathChange.CHANGED),
        ("c", PathChange.CHANGED),
        ("gone", PathChange.REMOVED),
        ("new", PathChange.ADDED),
    ]
    assert steps[-1] == (12, 12)
    assert await compare(blocks, before, before) == []
