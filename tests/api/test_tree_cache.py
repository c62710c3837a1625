"""Trees of large manifests: read once, never those of another text."""

from __future__ import annotations

import pytest

from lading.api import tree_cache
from lading.api.tree_cache import Trees
from lading.core.data import filetree
from lading.core.errors import Malformed

BLOCK = f"{'a' * 32}+9"
ONE, TWO, THREE = (f". {BLOCK} 0:{number}:f\n" for number in (1, 2, 3))


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_cache, "_SMALL", 1)


def test_a_tree_is_read_once() -> None:
    kept = Trees()
    assert kept.read(ONE) is kept.read(ONE)
    assert kept.read(ONE) == filetree.from_manifest(ONE)
    assert kept.read(TWO) != kept.read(ONE)
    with pytest.raises(Malformed):
        kept.read("x")


def test_a_tree_that_was_made() -> None:
    kept, tree = Trees(), filetree.from_manifest(ONE)
    kept.note(filetree.to_manifest(tree), tree)
    kept.note(filetree.to_manifest(tree), tree)
    assert kept.read(ONE) is tree


def test_those_that_were_not_asked_for_go() -> None:
    kept = Trees(limit=2 * len(ONE))
    one, two = kept.read(ONE), kept.read(TWO)
    assert kept.read(ONE) is one
    kept.read(THREE)
    assert kept.read(ONE) is one
    assert kept.read(TWO) is not two


def test_small_ones_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_cache, "_SMALL", 1000)
    kept, tree = Trees(), filetree.from_manifest(ONE)
    kept.note(ONE, tree)
    assert kept.read(ONE) is not kept.read(ONE)
