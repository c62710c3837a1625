from __future__ import annotations

from collections.abc import Callable

import pytest

from lading.core.data import filetree, tree_changes
from lading.core.data.filetree import File, FileTree
from lading.core.data.tree_changes import Difference, PathChange
from lading.core.errors import Invalid, NotFound
from tests.core.data.trees import BAR, FILE, FOO, OTHER, SIGNED, make_file


def test_place_replaces_and_shares() -> None:
    shared = FileTree({"f": FILE})
    tree = tree_changes.place(FileTree({"s": shared, "x": FILE}), "x", OTHER)
    assert tree == FileTree({"s": shared, "x": OTHER})
    assert tree.entries["s"] is shared


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree_changes.place(tree, "f/x", FILE),
        lambda tree: tree_changes.place(tree, "", FILE),
        lambda tree: tree_changes.remove(tree, ""),
        lambda tree: tree_changes.move(tree, "d", "d/e"),
        lambda tree: tree_changes.merge(tree, FileTree({"d": FILE})),
        lambda tree: tree_changes.merge(tree, FileTree({"f": FileTree()})),
        lambda tree: filetree.from_files({"a": FILE, "a/b": FILE}),
        lambda tree: filetree.from_files({"a/b": FILE, "a": FILE}),
        lambda tree: filetree.from_files({"": FILE}),
    ],
)
def test_changes_that_make_no_sense_are_invalid(change: Callable[[FileTree], FileTree]) -> None:
    with pytest.raises(Invalid):
        change(FileTree({"f": FILE, "d": FileTree({"g": FILE})}))


def test_remove_keeps_the_empty_parent() -> None:
    tree = FileTree({"d": FileTree({"f": FILE}), "g": FILE})
    assert tree_changes.remove(tree, "d/f") == FileTree({"d": FileTree(), "g": FILE})
    with pytest.raises(NotFound):
        tree_changes.remove(tree, "x")


def test_copy_and_move() -> None:
    tree = FileTree({"d": FileTree({"f": FILE})})
    assert tree_changes.copy(tree, "d", "e") == FileTree(
        {"d": FileTree({"f": FILE}), "e": FileTree({"f": FILE})}
    )
    assert tree_changes.move(tree, "d/f", "g/h") == FileTree(
        {"d": FileTree(), "g": FileTree({"h": FILE})}
    )


def test_merge_joins_directories_and_the_other_wins() -> None:
    one, two = (
        FileTree({"d": FileTree({"a": FILE, "b": FILE})}),
        FileTree({"d": FileTree({"b": OTHER, "c": OTHER})}),
    )
    assert tree_changes.merge(one, two) == FileTree(
        {"d": FileTree({"a": FILE, "b": OTHER, "c": OTHER})}
    )


def test_diff_names_what_changed_and_ignores_signatures() -> None:
    before = FileTree({"same": FILE, "gone": FILE, "new": FILE, "d": FileTree(), "kind": FILE})
    after = FileTree(
        {
            "same": make_file((SIGNED, 0, 1), (SIGNED, 1, 2)),
            "new": OTHER,
            "more": FILE,
            "kind": FileTree(),
        }
    )
    found = tree_changes.diff(before, after)
    assert [(one.path, one.change) for one in found] == [
        ("d", PathChange.REMOVED),
        ("gone", PathChange.REMOVED),
        ("kind", PathChange.CHANGED),
        ("more", PathChange.ADDED),
        ("new", PathChange.CHANGED),
    ]
    assert found[3] == Difference("more", PathChange.ADDED, None, FILE)


def test_diff_ignores_empty_segments() -> None:
    assert (
        tree_changes.diff(
            FileTree({"f": make_file((FOO, 0, 3), (BAR, 0, 0))}), FileTree({"f": FILE})
        )
        == []
    )


def test_a_change_of_the_root() -> None:
    tree = FileTree({"a": File()})
    assert tree_changes.change(tree, {"": None}) == FileTree()
    assert tree_changes.change(tree, {"": None, "b": File()}) == FileTree({"b": File()})
    with pytest.raises(Invalid):
        tree_changes.change(tree, {"": File()})
    with pytest.raises(Invalid, match="a: is a file"):
        tree_changes.change(tree, {"a/b": FileTree()})
