"""Downloads that meet files, and that go on where they were cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.cli.files.data import fetch
from lading.client.blocks import BlockClient
from lading.client.files.collections import CollectionWriter
from lading.client.files.upload_journal import UploadJournal
from lading.core.data.filetree import FileTree
from lading.core.errors import Conflict
from lading.testing.blocks import BlockStore

LARGE = bytes(1 << 20)


@pytest.fixture
def blocks() -> BlockClient:
    return BlockStore().client


async def _tree(blocks: BlockClient, **files: bytes) -> FileTree:
    async with CollectionWriter(blocks) as writer:
        for path, data in files.items():
            await writer.add_bytes(path.replace("_", "/"), data)
        return await writer.finish_tree()


async def test_what_is_there_is_not_replaced_unasked(blocks: BlockClient, tmp_path: Path) -> None:
    tree = await _tree(blocks, a=b"a", d_b=b"b")
    (tmp_path / "a").write_text("mine")
    (tmp_path / "d").mkdir()
    with pytest.raises(Conflict, match="/a: is there already; --overwrite replaces it"):
        await fetch(blocks, tree, tmp_path)
    assert list((tmp_path / "d").iterdir()) == []
    (tmp_path / "d" / "b").symlink_to("/nowhere")
    with pytest.raises(Conflict, match=r"/a \(and 1 more\): is there already"):
        await fetch(blocks, tree, tmp_path)
    assert await fetch(blocks, tree, tmp_path, overwrite=True) == 0
    assert ((tmp_path / "a").read_text(), (tmp_path / "d" / "b").read_text()) == ("a", "b")


async def test_what_was_fetched_is_not_fetched_again(blocks: BlockClient, tmp_path: Path) -> None:
    tree = await _tree(blocks, a=b"a", large=LARGE, d_c=b"c")
    target, path = tmp_path / "out", tmp_path / "journal"
    with UploadJournal(path) as journal:
        assert await fetch(blocks, tree, target, journal=journal) == 0
    (target / "a").unlink()
    with UploadJournal(path) as journal:
        assert await fetch(blocks, tree, target, journal=journal) == 2
    assert (target / "a").read_text() == "a"
    assert (target / "large").read_bytes() == LARGE
    (target / "d" / "c").write_text("mine")
    other = await _tree(blocks, a=b"A")
    with UploadJournal(path) as journal:
        with pytest.raises(Conflict, match="d/c: is there already"):
            await fetch(blocks, tree, target, journal=journal)
        with pytest.raises(Conflict, match="a: is there already"):
            await fetch(blocks, other, target, journal=journal)
