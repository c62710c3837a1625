from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from lading.client.blocks import BlockClient, hash_block, hash_part
from lading.client.files.collections import CollectionWriter
from lading.client.files.downloads import download, download_file, read_file
from lading.client.files.local_files import SMALL
from lading.core.data import filetree, manifest
from lading.core.data.filetree import File, FileTree, Segment
from lading.core.data.locator import EMPTY_BLOCK, MAX_BLOCK
from lading.core.errors import (
    Conflict,
    Corrupt,
    Full,
    Invalid,
    NotFound,
    TooLarge,
    Unavailable,
)
from lading.testing.asgi import FlakyTransport
from lading.testing.blocks import BlockStore, MemoryVolume, upload

MIB = 1 << 20


@pytest.fixture
def store() -> BlockStore:
    return BlockStore()


@pytest.fixture
def blocks(store: BlockStore) -> BlockClient:
    return store.client


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    """The descriptor of `tmp_path`."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def _fill(root: Path, seed: int) -> dict[str, bytes]:
    chance = random.Random(seed)
    sizes = [0, 1, 1000, 70_000, 300_000, 3 * MIB]
    made = {}
    for number in range(60):
        folder = chance.choice(["", "d/", "d/e/", "über uns/", "colon:/"])
        path = f"{folder}{number} file"
        made[path] = chance.randbytes(
            chance.choice(sizes) if number < 20 else chance.randrange(100)
        )
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(made[path])
    (root / "d" / "empty").mkdir(parents=True)
    return made


def _read(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


async def test_a_directory_there_and_back(blocks: BlockClient, tmp_path: Path) -> None:
    made = _fill(tmp_path / "in", 1)
    steps: list[tuple[int, int]] = []
    text = await upload(
        blocks, {"": tmp_path / "in"}, progress=lambda done, total: steps.append((done, total))
    )
    total = sum(map(len, made.values()))
    assert steps[-1] == (total, total)
    assert manifest.counts(text) == (len(made), total)
    steps.clear()
    tree = filetree.from_manifest(text)
    await download(
        blocks, tree, tmp_path / "out", progress=lambda done, total: steps.append((done, total))
    )
    assert _read(tmp_path / "out") == made
    assert (tmp_path / "out" / "d" / "empty").is_dir()
    assert steps[-1] == (total, total)


async def test_equal_directories_give_equal_manifests_whatever_is_lost(tmp_path: Path) -> None:
    hashes = set()
    for seed in (1, 2):
        store = BlockStore(signing_key="")
        (tmp_path / str(seed)).mkdir()
        _fill(tmp_path / str(seed), 7)
        blocks = store.over(FlakyTransport(store.transport, seed=seed))
        hashes.add(manifest.portable_data_hash(await upload(blocks, {"": tmp_path / str(seed)})))
    assert len(hashes) == 1


async def test_small_files_share_a_block_and_a_large_one_has_its_own(
    blocks: BlockClient, tmp_path: Path
) -> None:
    (tmp_path / "big").write_bytes(b"b" * (MAX_BLOCK + 5))
    for name in "acd":
        (tmp_path / name).write_bytes(name.encode())
    tree = filetree.from_manifest(await upload(blocks, {"": tmp_path}))
    sizes = {
        path: [segment.length for segment in file.segments] for path, file in filetree.files(tree)
    }
    assert sizes == {"a": [1], "big": [MAX_BLOCK, 5], "c": [1], "d": [1]}
    c, d, big = (filetree.get(tree, name) for name in ("c", "d", "big"))
    assert isinstance(c, File)
    assert isinstance(d, File)
    assert isinstance(big, File)
    assert c.segments[0].locator == d.segments[0].locator
    assert b"".join([piece async for piece in read_file(blocks, big)]) == b"b" * (MAX_BLOCK + 5)


async def test_a_directory_of_some_size_does_not_share_its_block(blocks: BlockClient) -> None:
    async with CollectionWriter(blocks) as writer:
        await writer.add_bytes("a/1", b"x")
        await writer.add_bytes("b/1", b"y" * MIB)
        await writer.add_bytes("c/1", b"z")
        tree = await writer.finish_tree()
    blocks_of = [file.segments[0].locator[:32] for _, file in filetree.files(tree)]
    assert blocks_of[0] == blocks_of[1] != blocks_of[2]


async def test_a_full_block_is_sent_and_the_next_begun(blocks: BlockClient) -> None:
    async with CollectionWriter(blocks) as writer:
        for name in "abc":
            await writer.add_bytes(name, name.encode() * (30 * MIB))
        tree = await writer.finish_tree()
    locators = [file.segments[0].locator for _, file in filetree.files(tree)]
    assert locators[0] == locators[1] != locators[2]
    assert "+62914560+" in locators[0]


async def test_large_bytes_are_cut(blocks: BlockClient) -> None:
    async with CollectionWriter(blocks) as writer:
        await writer.add_bytes("big", bytes(2 * MAX_BLOCK + 1))
        tree = await writer.finish_tree()
    assert [segment.length for segment in dict(filetree.files(tree))["big"].segments] == [
        MAX_BLOCK,
        MAX_BLOCK,
        1,
    ]


async def test_what_is_stored_is_added_by_reference(blocks: BlockClient) -> None:
    known = filetree.from_manifest(". acbd18db4cc2f85cedef654fccc4a4d8+3+A1@2 0:3:foo 0:1:f\n")
    async with CollectionWriter(blocks) as writer:
        writer.add_tree("", known)
        writer.add_tree("d", known)
        writer.add_tree("d/copy", filetree.get(known, "foo"))
        writer.add_directory("e")
        writer.add_directory("d")
        await writer.add_bytes("d/new", b"")
        tree = await writer.finish_tree()
    assert [path for path, _ in filetree.walk(tree)] == [
        "d",
        "d/copy",
        "d/f",
        "d/foo",
        "d/new",
        "e",
        "f",
        "foo",
    ]
    assert filetree.get(tree, "d/copy") == filetree.get(known, "foo")


@pytest.mark.parametrize("path", ["", "/a", "../a", "known", "\udcff"])
async def test_paths_that_cannot_be_added(blocks: BlockClient, path: str) -> None:
    async with CollectionWriter(blocks) as writer:
        await writer.add_bytes("known", b"")
        with pytest.raises(Invalid):
            await writer.add_bytes(path, b"x")
        with pytest.raises(Invalid):
            writer.add_tree(path, File())


@pytest.mark.parametrize("pack", [MIB, MAX_BLOCK])
async def test_the_files_of_a_folder_are_as_if_added_one_by_one(
    store: BlockStore, tmp_path: Path, directory: int, pack: int
) -> None:
    chance, made = random.Random(7), {}
    sizes = (
        [0, 1, 29, SMALL - 1, SMALL, SMALL + 1, 3 * SMALL, 2 * MIB, 0, SMALL, 7]
        + [100] * 100
        + [SMALL] * 9
    )
    for number, size in enumerate(sizes):
        made[f"{number:03}"] = chance.randbytes(size)
        (tmp_path / f"{number:03}").write_bytes(made[f"{number:03}"])
    async with CollectionWriter(store.client, pack=pack) as writer:
        await writer.add_bytes("before", b"1")
        await writer.add_folder("", directory, sorted(made))
        await writer.add_folder("d/e", directory, ["001", "007", "002"])
        await writer.add_folder("d/e", directory, ["003"])
        await writer.add_folder("none", directory, [])
        await writer.add_bytes("after", b"22")
        text = await writer.finish()
    await download(store.client, filetree.from_manifest(text), tmp_path / "out")
    below = {f"d/e/{name}": made[name] for name in ("001", "002", "003", "007")}
    assert _read(tmp_path / "out") == {"before": b"1", "after": b"22", **made, **below}


async def test_a_folder_after_a_large_one_has_its_own_block(
    blocks: BlockClient, tmp_path: Path, directory: int
) -> None:
    for number in range(10):
        (tmp_path / str(number)).write_bytes(bytes([number]) * SMALL)
    async with CollectionWriter(blocks) as writer:
        await writer.add_folder("a", directory, list("0123456789"))
        await writer.add_folder("b", directory, ["0"])
        assert len(manifest.locators(await writer.finish())) == 2


async def test_empty_files_alone_need_no_block(
    blocks: BlockClient, tmp_path: Path, directory: int
) -> None:
    (tmp_path / "a").touch()
    async with CollectionWriter(blocks) as writer:
        await writer.add_folder("", directory, ["a"])
        assert await writer.finish() == f". {EMPTY_BLOCK} 0:0:a\n"


@pytest.mark.parametrize(
    ("path", "names"),
    [("a/", ["x"]), ("..", ["x"]), ("", ["x/y"]), ("a", [".."]), ("a", ["x", "x"]), ("f", ["x"])],
)
async def test_folders_that_cannot_be_added(
    blocks: BlockClient, tmp_path: Path, directory: int, path: str, names: list[str]
) -> None:
    (tmp_path / "x").touch()
    async with CollectionWriter(blocks) as writer:
        await writer.add_bytes("f", b"1")
        with pytest.raises(Invalid):
            await writer.add_folder(path, directory, names)
            await writer.finish()


async def test_a_file_below_a_file_is_invalid(blocks: BlockClient) -> None:
    async with CollectionWriter(blocks) as writer:
        await writer.add_bytes("a", b"")
        await writer.add_bytes("a/b", b"")
        with pytest.raises(Invalid):
            await writer.finish()


async def test_a_file_that_cannot_be_read_is_named(blocks: BlockClient, tmp_path: Path) -> None:
    async with CollectionWriter(blocks) as writer:
        with pytest.raises(Invalid, match="absent: cannot be read"):
            await writer.add_file("a", tmp_path / "absent")


async def test_a_failed_put_is_raised() -> None:
    async with CollectionWriter(BlockStore(MemoryVolume(capacity=10)).client) as writer:
        with pytest.raises(Full):
            for number in range(5):
                await writer.add_bytes(str(number), bytes([number]) * (40 * MIB))


async def test_leaving_early_gives_up_what_is_under_way(blocks: BlockClient) -> None:
    async with CollectionWriter(blocks) as writer:
        await writer.add_bytes("a", bytes(40 * MIB))
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_files_at_their_places(blocks: BlockClient, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    os.truncate(tmp_path / "one", 300_000)
    text = await upload(blocks, {"x/y": tmp_path / "one"})
    assert manifest.counts(text) == (1, 300_000)


async def test_nothing_is_the_empty_manifest(blocks: BlockClient, tmp_path: Path) -> None:
    assert await upload(blocks, {"": tmp_path}) == ""


async def test_download_replaces_files_and_leaves_others(
    blocks: BlockClient, tmp_path: Path
) -> None:
    async with CollectionWriter(blocks) as writer:
        await writer.add_bytes("f", b"new")
        tree = await writer.finish_tree()
    (tmp_path / "f").write_text("old")
    (tmp_path / "other").write_text("other")
    await download(blocks, tree, tmp_path)
    assert _read(tmp_path) == {"f": b"new", "other": b"other"}
    await download_file(blocks, dict(filetree.files(tree))["f"], tmp_path / "g")
    assert (tmp_path / "g").read_text() == "new"


async def test_download_stays_inside_its_target(blocks: BlockClient, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "d").symlink_to(tmp_path / "outside")
    with pytest.raises(Conflict, match="in the way"):
        await download(blocks, FileTree({"d": FileTree({"f": File()})}), tmp_path / "target")
    assert list((tmp_path / "outside").iterdir()) == []


async def test_a_broken_download_leaves_no_part_of_a_file(
    store: BlockStore, tmp_path: Path
) -> None:
    async with CollectionWriter(store.client) as writer:
        await writer.add_bytes("big", os.urandom(40 * MIB))
        first = await writer.finish_tree()
    missing = Segment("0cc175b9c0f1b6a831c399e269772661+1", 0, 1)
    big = dict(filetree.files(first))["big"]
    with pytest.raises(NotFound):
        await download(
            BlockStore(signing_key="").client, FileTree({"f": File((missing,))}), tmp_path
        )
    unsigned = BlockStore(store.volume, signing_key="").client
    with pytest.raises(NotFound):
        await download(unsigned, FileTree({"big": File((*big.segments, missing))}), tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_a_file_beyond_its_block_is_corrupt(blocks: BlockClient) -> None:
    found = await blocks.put(b"foo")
    with pytest.raises(Corrupt, match="beyond this block of 3 bytes"):
        _ = [piece async for piece in read_file(blocks, File((Segment(found, 1, 3),)))]


async def test_reading_may_stop_early(blocks: BlockClient) -> None:
    segments = tuple([Segment(await blocks.put(data), 0, 3) for data in (b"one", b"two", b"six")])
    async with aclosing(read_file(blocks, File(segments))) as pieces:
        assert await anext(pieces) == b"one"
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_many_small_files_are_written_in_batches(blocks: BlockClient, tmp_path: Path) -> None:
    found = await blocks.put(b"foobar")
    half = File((Segment(found, 0, 3), Segment(found, 3, 3), Segment(found, 0, 1)))
    tree = FileTree({f"{number:03}": half if number % 2 else File() for number in range(700)})
    await download(blocks, tree, tmp_path)
    assert _read(tmp_path) == {name: b"foobarf" if int(name) % 2 else b"" for name in tree.entries}


async def test_a_large_file_is_sent_in_parts_and_a_device_is_read(
    blocks: BlockClient, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"x" * 5000)
    seen: list[int] = []
    async with CollectionWriter(blocks, pack=4000) as writer:
        await writer.add_bytes("a", b"a" * 1000)
        await writer.add_file("f", tmp_path / "f", progress=seen.append)
        await writer.add_file("null", Path("/dev/null"))
        await writer.add_bytes("g", b"g" * 3000)
        tree = dict(filetree.files(await writer.finish_tree()))
    assert [segment.length for segment in tree["f"].segments] == seen == [5000]
    assert tree["null"].size == 0
    assert len({file.segments[0].locator for name, file in tree.items() if name != "null"}) == 3


async def test_files_on_their_way_are_closed_when_left_early(
    blocks: BlockClient, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"x" * 5000)
    before = len(list(Path("/proc/self/fd").iterdir()))
    async with CollectionWriter(blocks, pack=4000) as writer:
        await writer.add_file("f", tmp_path / "f")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


class _Counting:
    """Counts what is stored, and keeps none of it."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    async def put(self, data: bytes | bytearray) -> str:
        self.lengths.append(len(data))
        return f"{await hash_block(data)}+{len(data)}"

    async def put_part(self, descriptor: int, start: int, length: int, /) -> str:
        self.lengths.append(length)
        return f"{await hash_part(descriptor, start, length)}+{length}"


async def test_blocks_of_zeros_are_stored_once(tmp_path: Path) -> None:
    seen: list[int] = []
    for name in ("a", "b"):
        with (tmp_path / name).open("wb") as file:
            file.truncate((1 << 40) + 7)
            os.pwrite(file.fileno(), b"begin", 0)
    counting = _Counting()
    async with CollectionWriter(counting) as writer:
        await writer.add_file("a", tmp_path / "a", progress=seen.append)
        await writer.add_file("b", tmp_path / "b")
        tree = dict(filetree.files(await writer.finish_tree()))
    assert sorted(counting.lengths) == [7, MAX_BLOCK, MAX_BLOCK, MAX_BLOCK]
    assert [file.size for file in tree.values()] == [(1 << 40) + 7] * 2
    assert sum(seen) == (1 << 40) + 7


async def test_a_hole_and_zeros_give_the_same_manifest(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(3 * MAX_BLOCK + 5)
    counting = _Counting()
    async with CollectionWriter(counting) as writer:
        await writer.add_file("f", tmp_path / "sparse")
        sparse = await writer.finish()
    assert counting.lengths == [MAX_BLOCK, 5]
    with (tmp_path / "sparse").open("r+b") as file:
        for at in range(0, 3 * MAX_BLOCK + 5, MAX_BLOCK):
            os.pwrite(file.fileno(), b"\0", at)
    counting = _Counting()
    async with CollectionWriter(counting) as writer:
        await writer.add_file("f", tmp_path / "sparse")
        assert await writer.finish() == sparse
    assert counting.lengths == [MAX_BLOCK] * 3 + [5]


async def test_no_more_is_stored_than_may_be_added(blocks: BlockClient, tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.truncate(11)
    async with CollectionWriter(blocks, most=20) as writer:
        await writer.add_bytes("a", b"x" * 10)
        with pytest.raises(TooLarge, match="21 bytes are more than the 20"):
            await writer.add_file("f", tmp_path / "f")
        assert writer.size == 21


async def _in_parts(blocks: BlockClient, root: Path, data: bytes) -> FileTree:
    (root / "source").write_bytes(data)
    async with CollectionWriter(blocks) as writer:
        await writer.add_file("d/large", root / "source", cuts=[MIB, 2 * MIB, 3 * MIB])
        await writer.add_bytes("small", b"small")
        return await writer.finish_tree()


async def test_a_file_of_whole_blocks_is_written_block_by_block(
    blocks: BlockClient, tmp_path: Path
) -> None:
    data, steps, landed = os.urandom(3 * MIB + 5), list[tuple[int, int]](), list[str]()
    tree = await _in_parts(blocks, tmp_path, data)
    await download(
        blocks,
        tree,
        tmp_path / "out",
        progress=lambda *at: steps.append(at),
        landed=landed.extend,
    )
    assert _read(tmp_path / "out") == {"d/large": data, "small": b"small"}
    assert (len(steps), steps[-1]) == (5, (len(data) + 5, len(data) + 5))
    assert landed == ["small", "d/large"]


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, Full), (errno.EIO, Unavailable)])
async def test_a_disk_that_fails_under_a_file_of_whole_blocks(
    blocks: BlockClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: type[Exception],
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    tree = await _in_parts(blocks, tmp_path, os.urandom(3 * MIB))
    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(kind, match="d/large"):
        await download(blocks, tree, tmp_path / "out")
    assert _read(tmp_path / "out").keys() == {"small"}


async def test_a_damaged_block_leaves_no_part_of_its_file(
    store: BlockStore, tmp_path: Path
) -> None:
    tree = await _in_parts(store.client, tmp_path, os.urandom(3 * MIB))
    with pytest.raises(NotFound):
        await download(BlockStore().client, tree, tmp_path / "out")
    assert _read(tmp_path / "out") == {}
