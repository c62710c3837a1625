"""What collections take and share."""

from __future__ import annotations

from lading.core.data import filetree
from lading.core.data.packing import (
    BlockUsage,
    blocks_of,
    sizes_of,
    usage_of,
    usage_of_groups,
)

A, B = "a" * 32 + "+10", "b" * 32 + "+20"


def test_blocks_are_counted_once_and_whole() -> None:
    tree = filetree.from_manifest(f". {A} {B}+Asigned@ffffffff 0:5:x 0:5:y 10:20:d/z\n")
    assert usage_of([tree]) == ([BlockUsage(3, 30, 30, 0)], BlockUsage(3, 30, 30, 0))


def test_what_several_use_is_shared() -> None:
    one = filetree.from_manifest(f". {A} {B} 0:30:x\n")
    other = filetree.get(filetree.from_manifest(f". {A}+Asigned@ffffffff 2:3:y\n"), "y")
    assert usage_of([one, other]) == (
        [BlockUsage(1, 30, 30, 10), BlockUsage(1, 3, 10, 10)],
        BlockUsage(2, 33, 30, 10),
    )
    assert usage_of([]) == ([], BlockUsage(0, 0, 0, 0))


def test_groups_count_each_block_once() -> None:
    one, other = blocks_of(f". {A}+Ahint@1 {B} 0:30:x\n"), blocks_of(f". {B} 0:20:y\n")
    assert (sizes_of(one), sizes_of(other)) == (30, 20)
    assert usage_of_groups({"one": one, "other": other}) == ({"one": 10, "other": 0}, 30)
