from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data import filetree, manifest, tree_changes
from lading.core.data.filetree import File, FileTree, Node, Segment
from lading.core.errors import Invalid, Malformed, NotFound
from tests.core.data.trees import BAR, FILE, FOO, OTHER, SIGNED, make_file, segments

EMPTY = "d41d8cd98f00b204e9800998ecf8427e+0"


names = st.sampled_from(["a", "b", "c d", "e:", "ü", "-", "\x7f"])
file_nodes = st.lists(segments, max_size=4).map(lambda parts: make_file(*parts))


def _trees(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.dictionaries(names, inner, max_size=4).map(FileTree)


nodes: st.SearchStrategy[Node] = st.recursive(file_nodes, _trees, max_leaves=12)
trees: st.SearchStrategy[FileTree] = st.dictionaries(names, nodes, max_size=4).map(FileTree)


@given(trees)
def test_a_tree_survives_its_manifest(tree: FileTree) -> None:
    text = filetree.to_manifest(tree)
    again = filetree.from_manifest(text)
    assert tree_changes.diff(tree, again) == []
    assert filetree.to_manifest(again) == text


@given(trees)
def test_counts_agree_with_the_tree(tree: FileTree) -> None:
    expected = len(list(filetree.files(tree))), filetree.total_size(tree)
    assert manifest.counts(filetree.to_manifest(tree)) == expected


@given(trees, trees)
def test_diff_is_empty_for_equals_and_turns_round(one: FileTree, two: FileTree) -> None:
    assert tree_changes.diff(one, one) == []
    there, back = tree_changes.diff(one, two), tree_changes.diff(two, one)
    assert [(d.path, d.before, d.after) for d in there] == [
        (d.path, d.after, d.before) for d in back
    ]


@given(trees)
def test_placing_every_leaf_rebuilds_the_tree(tree: FileTree) -> None:
    rebuilt = FileTree()
    for path, node in filetree.walk(tree):
        rebuilt = tree_changes.place(
            rebuilt, path, FileTree() if isinstance(node, FileTree) else node
        )
    assert rebuilt == tree == filetree.from_files(dict(tree.entries))


@given(trees)
def test_a_tree_is_not_changed_by_merge_with_itself_or_nothing(tree: FileTree) -> None:
    assert (
        tree_changes.merge(tree, tree)
        == tree_changes.merge(tree, FileTree())
        == tree_changes.merge(FileTree(), tree)
        == tree
    )


def test_from_manifest_cuts_at_blocks_and_joins_neighbours() -> None:
    tree = filetree.from_manifest(
        f". {FOO} {EMPTY} {BAR} 1:4:a 0:2:b 2:1:b 0:0:c\n./d {FOO} 0:1:e/f 1:2:e/f\n"
    )
    assert tree == FileTree(
        {
            "a": make_file((FOO, 1, 2), (BAR, 0, 2)),
            "b": FILE,
            "c": File(),
            "d": FileTree({"e": FileTree({"f": FILE})}),
        }
    )


def test_empty_directories_are_kept() -> None:
    text = f"./d/e {EMPTY} 0:0:\\056\n"
    assert filetree.from_manifest(text) == FileTree({"d": FileTree({"e": FileTree()})})
    assert filetree.to_manifest(filetree.from_manifest(text)) == text


def test_the_root_may_be_marked_as_empty() -> None:
    assert filetree.from_manifest(f". {EMPTY} 0:0:\\056\n") == FileTree()
    assert filetree.to_manifest(FileTree()) == ""


def test_a_bad_manifest_is_malformed() -> None:
    with pytest.raises(Malformed):
        filetree.from_manifest("nonsense\n")


def test_to_manifest_lists_a_block_once_and_joins_spans() -> None:
    tree = FileTree(
        {
            "b": make_file((SIGNED, 0, 1), (FOO, 1, 2), (BAR, 0, 3), (FOO, 0, 1)),
            "a": OTHER,
            "z": File(),
        }
    )
    assert filetree.to_manifest(tree) == f". {BAR} {SIGNED} 0:3:a 3:3:b 0:4:b 0:0:z\n"


def test_to_manifest_goes_depth_first() -> None:
    tree = FileTree(
        {
            "a": FileTree({"b": FileTree({"f": FILE}), "e": File()}),
            "a-b": FileTree({"f": FILE}),
            "x y": FILE,
        }
    )
    assert [line.split(" ")[0] for line in filetree.to_manifest(tree).splitlines()] == [
        ".",
        "./a",
        "./a/b",
        "./a-b",
    ]


def test_get_find_and_subtree() -> None:
    tree = FileTree({"d": FileTree({"f": FILE})})
    assert filetree.get(tree, "d/f") is FILE
    assert filetree.get(tree, "") is tree
    assert filetree.find(tree, "d/f/g") is None
    assert filetree.subtree(tree, "d") == FileTree({"f": FILE})
    with pytest.raises(NotFound, match="d/x"):
        filetree.get(tree, "d/x")
    with pytest.raises(Invalid, match="is a file"):
        filetree.subtree(tree, "d/f")


@pytest.mark.parametrize("path", ["/a", "a/", "a//b", ".", "a/../b", "a\0", "\ud800"])
def test_what_is_no_path_is_invalid(path: str) -> None:
    with pytest.raises(Invalid):
        filetree.find(FileTree(), path)
    with pytest.raises(Invalid):
        filetree.check_path(path)


def test_check_path_wants_a_name() -> None:
    filetree.check_path("a/b")
    with pytest.raises(Invalid, match="needs a name"):
        filetree.check_path("")


def test_walk_and_sizes() -> None:
    tree = FileTree({"d": FileTree({"f": FILE}), "c": OTHER})
    assert [path for path, _ in filetree.walk(tree)] == ["c", "d", "d/f"]
    assert [path for path, _ in filetree.files(tree)] == ["c", "d/f"]
    assert filetree.total_size(tree) == 6


def test_from_files_joins_a_directory_with_what_is_below_it() -> None:
    tree = filetree.from_files(
        {"d": FileTree({"f": FILE}), "d/g": OTHER, "e": FileTree(), "e/h": FILE}
    )
    assert tree == FileTree({"d": FileTree({"f": FILE, "g": OTHER}), "e": FileTree({"h": FILE})})


def test_from_files_refuses_what_two_directories_have() -> None:
    assert filetree.from_files(
        {"d": FileTree({"e": FileTree({"f": FILE})}), "d/e": FileTree({"g": FILE})}
    ) == FileTree({"d": FileTree({"e": FileTree({"f": FILE, "g": FILE})})})
    with pytest.raises(Invalid, match="d/e/f: two files"):
        filetree.from_files(
            {"d/e": FileTree({"f": FILE, "g": FILE}), "d": FileTree({"e": FileTree({"f": FILE})})}
        )
    with pytest.raises(Invalid, match="d"):
        filetree.from_files({"d": FILE, "d/e": FileTree()})


@pytest.mark.parametrize(
    "names", [[], ["a"], ["a b", "c:d", ".e", "..."], ["ü" * 127], ["x" * 255]]
)
def test_names_that_files_of_a_directory_can_have(names: list[str]) -> None:
    filetree.check_names(names)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0", "x" * 256, "ü" * 128, "\udcff"])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(Invalid):
        filetree.check_names(["a", name, "b"])


@pytest.mark.parametrize(
    "rest", ["0:1:a 0:1:a/b", "0:1:a/b 0:1:a", "0:1:a 0:1:a/b/c", "0:1:a/b/c 0:1:a/b"]
)
def test_a_file_that_is_a_directory_is_no_tree(rest: str) -> None:
    with pytest.raises(Malformed, match="both a file and a directory"):
        filetree.from_manifest(f". 0cc175b9c0f1b6a831c399e269772661+1 {rest}\n")


def test_a_tree_deeper_than_paths_has_no_manifest() -> None:
    tree = FileTree({"f": File()})
    for _ in range(manifest.MAX_DEPTH - 1):
        tree = FileTree({"d": tree})
    text = filetree.to_manifest(tree)
    assert filetree.to_manifest(filetree.from_manifest(text)) == text
    with pytest.raises(Invalid, match="at most 256 names"):
        filetree.to_manifest(FileTree({"d": tree}))


@given(
    trees,
    st.dictionaries(
        st.sampled_from(["a", "b/c", "d"]), st.sampled_from([File(), FileTree(), None])
    ),
)
def test_changes_at_once_are_changes_one_by_one(
    tree: FileTree, changes: dict[str, filetree.Node | None]
) -> None:
    if isinstance(filetree.find(tree, "b"), File):
        return
    expected = tree
    for path, node in changes.items():
        if node is not None:
            expected = tree_changes.place(expected, path, node)
        elif filetree.find(expected, path) is not None:
            expected = tree_changes.remove(expected, path)
    assert tree_changes.change(tree, changes) == expected


def test_a_file_in_many_parts() -> None:
    block = "0cc175b9c0f1b6a831c399e269772661+9"
    tree = filetree.from_manifest(
        f". {block} 0:2:a 0:0:b 2:1:a 5:1:a 0:0:a\n./d {block} {block} 0:3:f 12:2:f 0:0:\\056\n"
    )
    assert tree.entries["a"] == File((Segment(block, 0, 3), Segment(block, 5, 1)))
    assert filetree.get(tree, "d/f") == File((Segment(block, 0, 5),))
    assert filetree.counts(tree) == (3, 9)


@pytest.mark.parametrize(
    ("first", "end", "left"),
    [
        (0, None, [("A", 2, 3), ("B", 0, 4)]),
        (1, 2, [("A", 3, 1)]),
        (2, 5, [("A", 4, 1), ("B", 0, 2)]),
        (3, None, [("B", 0, 4)]),
        (9, 20, []),
    ],
)
def test_a_part_of_a_file(first: int, end: int | None, left: list[tuple[str, int, int]]) -> None:
    file = File((Segment("A", 2, 3), Segment("B", 0, 4)))
    assert filetree.cut(file, first, end) == File(tuple(Segment(*one) for one in left))
