"""The plan of blocks, and the manifest that is written from it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st

from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree, Node, Segment
from lading.core.data.packing import SHARED, PackedBlock, PackedDirectory, plan, write_manifest

_SIZES = st.integers(0, 3) | st.integers(0, 40)


def test_small_files_share_a_block_and_empty_ones_have_none() -> None:
    assert list(plan([("", 3), ("", 0), ("", 4)])) == [PackedBlock(0, 3, 0, 7)]
    assert list(plan([("", 0), ("", 4), ("", 0)])) == [PackedBlock(1, 2, 0, 4)]
    assert list(plan([])) == list(plan([("", 0)])) == []


def test_large_files_are_cut_and_stand_alone() -> None:
    assert list(plan([("", 1), ("", 25), ("", 2), ("", 6)], pack=10)) == [
        PackedBlock(0, 1, 0, 1),
        PackedBlock(1, 2, 0, 10),
        PackedBlock(1, 2, 10, 10),
        PackedBlock(1, 2, 20, 5),
        PackedBlock(2, 3, 0, 2),
        PackedBlock(3, 4, 0, 6),
    ]


def test_a_full_block_is_closed() -> None:
    assert [one.length for one in plan([("", 4)] * 5, pack=10)] == [8, 8, 4]


def test_directories_share_a_block_while_it_is_small() -> None:
    assert len(list(plan([("a", 5), ("b", 5)]))) == 1
    assert len(list(plan([("a", SHARED), ("a", 5)]))) == 1
    assert len(list(plan([("a", SHARED), ("b", 5)]))) == 2


@given(st.lists(_SIZES, max_size=30))
def test_every_byte_is_in_one_block_in_order(sizes: list[int]) -> None:
    blocks = list(plan([("", size) for size in sizes], pack=16))
    assert all(0 < one.length <= 16 for one in blocks)
    assert sum(one.length for one in blocks) == sum(sizes)
    for one in blocks:
        whole = sum(sizes[one.first : one.end])
        assert one.length == (whole if one.is_packed else min(16, whole - one.start))


_Files = Mapping[str, Mapping[str, int]]
"""Sizes by directory and name."""


def _folders(files: _Files, cut: int) -> Iterator[PackedDirectory]:
    """The directories in the order of a manifest, `cut` files at a time."""
    begin = 0
    for path in sorted(files, key=lambda one: one.split("/") if one else []):
        names = sorted(files[path])
        for at in range(0, len(names) or 1, cut):
            some = names[at : at + cut]
            yield PackedDirectory(
                path=path,
                names=some,
                sizes=[files[path][name] for name in some],
                first=begin + at,
                begin=begin,
                end=begin + len(names),
                has_data=any(files[path].values()),
            )
        begin += len(names)


def _tree(files: _Files, blocks: list[PackedBlock], locators: list[str]) -> FileTree:
    """The tree of the same files, made file by file."""
    sizes = [(folder, name) for folder in _folders(files, 99) for name in folder.names]
    nodes: dict[str, Node] = {
        path: FileTree() for path, entries in files.items() if path and not entries
    }
    segments: list[list[Segment]] = [[] for _ in sizes]
    for block, locator in zip(blocks, locators, strict=True):
        offset = 0
        for number in range(block.first, block.end):
            folder, name = sizes[number]
            length = files[folder.path][name] if block.is_packed else block.length
            if length:
                filetree.append(segments[number], Segment(locator, offset, length))
            offset += length
    for (folder, name), found in zip(sizes, segments, strict=True):
        nodes[f"{folder.path}/{name}" if folder.path else name] = File(tuple(found))
    return filetree.from_files(nodes)


@given(
    st.dictionaries(
        st.sampled_from(["", "a", "a/b", "a/b/c", "d e"]),
        st.dictionaries(st.sampled_from(["f", "g", "h:i", "j", "k"]), _SIZES, max_size=5),
    ),
    st.lists(st.integers(0, 2), max_size=40),
    st.integers(1, 4),
)
def test_the_manifest_is_that_of_the_tree(files: _Files, same: list[int], cut: int) -> None:
    # A directory without files has no line of its own but when it is empty.
    paths = [f"{path}/" for path in files]
    files = {
        path: entries
        for path, entries in files.items()
        if entries
        or (path and not any(one.startswith(f"{path}/") and one != f"{path}/" for one in paths))
    }
    blocks = list(
        plan(((one.path, size) for one in _folders(files, 99) for size in one.sizes), pack=16)
    )
    # Some blocks have the same bytes.
    marks = [mark or 10 + number for number, mark in enumerate([*same, *[0] * len(blocks)])]
    locators = [
        f"{mark:032x}+{one.length}+A{number}"
        for number, (one, mark) in enumerate(zip(blocks, marks, strict=False))
    ]
    text = "".join(write_manifest(_folders(files, cut), blocks, locators))
    expected = filetree.to_manifest(_tree(files, blocks, locators))
    assert text == expected


def test_the_manifest_of_many_files_is_never_whole_in_memory() -> None:
    count, each = 100, 1000
    names = [f"a file with quite a long name {number:06}" for number in range(each)]
    folders = (
        PackedDirectory(
            path="d",
            names=names,
            sizes=[1] * each,
            first=at * each,
            begin=0,
            end=count * each,
            has_data=True,
        )
        for at in range(count)
    )
    blocks = list(plan((("d", 1) for _ in range(count * each)), pack=1 << 10))
    tracemalloc.start()
    try:
        size = sum(map(len, write_manifest(folders, blocks, ["0" * 32 + "+1024"] * len(blocks))))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (size > 4 << 20, most < 2 << 20) == (True, True)
