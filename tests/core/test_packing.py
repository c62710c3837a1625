"""The plan of blocks, and that it is the one that the writer of collections makes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core import filetree
from lading.core.errors import Invalid
from lading.core.filetree import File, Segment
from lading.core.locator import EMPTY_BLOCK
from lading.core.packing import SHARED, Part, lay_out, plan

HASH = "0" * 31


def test_small_files_share_a_block_and_empty_ones_have_none() -> None:
    assert plan([("a", 3), ("b", 0), ("c", 4)]) == [(Part(0, 0, 3), Part(2, 0, 4))]
    assert plan([]) == plan([("a", 0)]) == []


def test_large_files_are_cut_and_stand_alone() -> None:
    files = [("a", 1), ("b", 25), ("c", 2), ("d", 6)]
    assert plan(files, pack=10) == [
        (Part(0, 0, 1),),
        (Part(1, 0, 10),),
        (Part(1, 10, 10),),
        (Part(1, 20, 5),),
        (Part(2, 0, 2),),
        (Part(3, 0, 6),),
    ]


def test_a_full_block_is_closed() -> None:
    assert [len(block) for block in plan([(str(n), 4) for n in range(5)], pack=10)] == [2, 2, 1]


def test_directories_share_a_block_while_it_is_small() -> None:
    assert len(plan([("a/x", 5), ("b/x", 5)])) == 1
    assert len(plan([("a/x", SHARED), ("a/y", 5)])) == 1
    assert len(plan([("a/x", SHARED), ("b/x", 5)])) == 2


def test_the_files_are_laid_out() -> None:
    files = [("a", 3), ("b", 0), ("d/c", 12)]
    blocks = plan(files, pack=10)
    locators = [f"{HASH}1+3", f"{HASH}2+10", f"{HASH}3+2"]
    tree = lay_out([path for path, _ in files], blocks, locators, empty=["e"])
    assert tree == filetree.from_manifest(
        f". {HASH}1+3 0:3:a 0:0:b\n./d {HASH}2+10 {HASH}3+2 0:12:c\n./e {EMPTY_BLOCK} 0:0:\\056\n"
    )
    assert filetree.get(tree, "d/c") == File((Segment(locators[1], 0, 10), Segment(locators[2], 0, 2)))
    with pytest.raises(Invalid, match="this name"):
        lay_out(["a", "a"], [], [], empty=[])


@given(st.lists(st.tuples(st.sampled_from(["x", "d/x", "e/x"]), st.integers(0, 40)), max_size=30))
def test_every_byte_is_in_one_block_in_order(files: list[tuple[str, int]]) -> None:
    blocks = plan(files, pack=16)
    assert all(0 < sum(part.length for part in block) <= 16 for block in blocks)
    parts = [part for block in blocks for part in block]
    assert parts == sorted(parts)
    for number, (_, size) in enumerate(files):
        mine = [part for part in parts if part.file == number]
        assert sum(part.length for part in mine) == size
        assert [part.start for part in mine] == list(range(0, size, 16))[: len(mine)]
