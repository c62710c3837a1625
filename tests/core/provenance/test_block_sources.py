"""How blocks are found in files."""

from __future__ import annotations

from lading.core.data import filetree
from lading.core.provenance.block_sources import BlockPiece, block_sources

BLOCK = "a" * 32 + "+10"


def test_files_that_follow_one_another_make_a_block() -> None:
    tree = filetree.from_manifest(f". {BLOCK} 0:4:x 4:6:y\n")
    found, missing = block_sources({"data/h": tree})
    assert found == {BLOCK: (BlockPiece("data/h/x", 0, 4), BlockPiece("data/h/y", 0, 6))}
    assert missing == ()


def test_files_may_overlap_and_lie_in_several_contents() -> None:
    one = filetree.from_manifest(f". {BLOCK} 0:6:x 0:3:y 1:2:w\n")
    two = filetree.from_manifest(f". {BLOCK} 2:8:y 9:1:z\n")
    found, missing = block_sources({"one": one, "two": two})
    assert sum(piece.length for piece in found[BLOCK]) == 10
    assert found[BLOCK][-1] == BlockPiece("two/y", 4, 4)
    assert missing == ()


def test_a_file_of_several_blocks() -> None:
    other = "b" * 32 + "+5"
    tree = filetree.from_manifest(f". {BLOCK} {other} 0:15:x\n")
    found, _ = block_sources({"h": tree})
    assert found[other] == (BlockPiece("h/x", 10, 5),)


def test_a_block_with_a_gap_is_missing() -> None:
    tree = filetree.from_manifest(f". {BLOCK} 0:4:x 5:5:y\n")
    assert block_sources({"h": tree}) == ({}, (BLOCK,))
    tree = filetree.from_manifest(f". {BLOCK} 0:9:x\n")
    assert block_sources({"h": tree}) == ({}, (BLOCK,))
