"""Trees of large manifests: read once, never those of another text."""

from __future__ import annotations

import pytest

from lading.api.mounts.tree_cache import Trees
from lading.core.data import filetree
from lading.core.errors import Malformed

BLOCK = f"{'a' * 32}+9"
ONE, TWO, THREE = (f". {BLOCK} 0:{number}:f\n" for number in (1, 2, 3))


def test_a_tree_is_read_once() -> None:
    kept = Trees(small=1)
    assert kept.read(ONE) is kept.read(ONE)
    assert kept.read(ONE) == filetree.from_manifest(ONE)
    assert kept.read(TWO) != kept.read(ONE)
    with pytest.raises(Malformed):
        kept.read("x")


def test_a_tree_that_was_made() -> None:
    kept, tree = Trees(small=1), filetree.from_manifest(ONE)
    kept.note(filetree.to_manifest(tree), tree)
    kept.note(filetree.to_manifest(tree), tree)
    assert kept.read(ONE) is tree


def test_those_that_were_not_asked_for_go() -> None:
    kept = Trees(limit=2 * len(ONE), small=1)
    one, two = kept.read(ONE), kept.read(TWO)
    assert kept.read(ONE) is one
    kept.read(THREE)
    assert kept.read(ONE) is one
    assert kept.read(TWO) is not two


def test_small_ones_are_not_kept() -> None:
    kept, tree = Trees(small=1000), filetree.from_manifest(ONE)
    kept.note(ONE, tree)
    assert kept.read(ONE) is not kept.read(ONE)
