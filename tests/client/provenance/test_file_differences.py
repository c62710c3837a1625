"""Files that are packed into other blocks are compared by their bytes."""

from __future__ import annotations

from lading.client.blocks import BlockClient
from lading.client.files.collections import CollectionWriter
from lading.client.provenance.file_differences import compare_files
from lading.core.data.filetree import FileTree
from lading.core.data.tree_changes import PathChange
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
    found = await compare_files(
        blocks, before, after, progress=lambda done, total: steps.append((done, total))
    )
    assert [(row.path, row.change) for row in found.differences] == [
        ("b", PathChange.CHANGED),
        ("c", PathChange.CHANGED),
        ("gone", PathChange.REMOVED),
        ("new", PathChange.ADDED),
    ]
    assert steps[-1] == (12, 12)
    assert found.unread == frozenset()
    assert (await compare_files(blocks, before, before)).differences == []


async def test_of_too_many_bytes_the_smallest_files_are_read() -> None:
    blocks = BlockStore().client
    before = await _stored(blocks, a=b"a" * 9, b=b"bb", c=b"x")
    after = await _stored(blocks, a=b"a" * 9, b=b"bb", c=b"y")
    found = await compare_files(blocks, before, after, most=6)
    assert [row.path for row in found.differences] == ["a", "c"]
    assert set(found.unread) == {"a"}
