from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.s3.listing import (
    CommonPrefix,
    DirectoryVisit,
    ListingQuery,
    fill_page,
    list_tree,
    read_limit,
    read_token,
    visit,
    write_token,
)
from lading.core.s3.refusals import S3Refusal

NAMES = st.text(alphabet="ab-./", min_size=1, max_size=6).filter(
    lambda path: not any(part in ("", ".", "..") for part in path.split("/"))
)


def tree_of(paths: list[str]) -> FileTree:
    """A tree of empty files; paths below an earlier file are left out."""
    nodes: dict[str, File] = {}
    for path in paths:
        beginnings = {path[:at] for at, letter in enumerate(path) if letter == "/"}
        below = any(other.startswith(f"{path}/") for other in nodes)
        if not beginnings & nodes.keys() and not below:
            nodes[path] = File()
    return filetree.from_files(nodes)


def expected(keys: list[str], query: ListingQuery) -> list[str]:
    """The entries by the rules of S3, from all keys."""
    entries: dict[str, None] = {}
    for key in sorted(keys):
        if not key.startswith(query.prefix):
            continue
        end = key.find(query.delimiter, len(query.prefix)) if query.delimiter else -1
        entry = key if end < 0 else key[: end + len(query.delimiter)]
        if entry > query.after:
            entries[entry] = None
    return list(entries)


@given(
    st.lists(NAMES, max_size=12),
    st.text(alphabet="ab-/", max_size=3),
    st.sampled_from(["", "/", "-", "a", "b/"]),
    st.text(alphabet="ab-/", max_size=4),
    st.integers(0, 5),
)
def test_pages_are_those_of_all_keys(
    paths: list[str], prefix: str, delimiter: str, after: str, limit: int
) -> None:
    tree = tree_of(paths)
    keys = [path for path, _ in filetree.files(tree)]
    query = ListingQuery(prefix=prefix, delimiter=delimiter, after=after, limit=limit)
    page = fill_page(query, list_tree(tree, "", query))
    wanted = expected(keys, query)
    shown = sorted([*(listed.key for listed in page.keys), *page.prefixes])
    assert shown == wanted[:limit]
    assert page.is_cut == (len(wanted) > limit > 0)
    assert page.last == (wanted[: limit or 0] or [""])[-1]


@pytest.mark.parametrize(
    ("query", "entries"),
    [
        (ListingQuery(prefix="b/"), ["b/c/f", "b/g"]),
        (ListingQuery(prefix="b/c"), ["b/c/f"]),
        (ListingQuery(prefix="bx"), []),
        (ListingQuery(after="b/c/f"), ["b/g", "d"]),
        (ListingQuery(after="bz"), ["d"]),
        (ListingQuery(delimiter="/", after="b/"), ["d"]),
        (ListingQuery(delimiter="/"), ["a", "b/", "d"]),
        (ListingQuery(delimiter="/", prefix="b/"), ["b/c/", "b/g"]),
        (ListingQuery(delimiter="c/"), ["a", "b/c/", "b/g", "d"]),
        (ListingQuery(delimiter="c", after="b/c"), ["b/g", "d"]),
        (ListingQuery(limit=2), ["a", "b/c/f"]),
        (ListingQuery(limit=0), []),
    ],
)
def test_pages(query: ListingQuery, entries: list[str]) -> None:
    tree = tree_of(["a", "b/c/f", "b/g", "d"])
    page = fill_page(query, list_tree(tree, "", query))
    assert sorted([*(listed.key for listed in page.keys), *page.prefixes]) == entries


def test_a_prefix_is_listed_once() -> None:
    query = ListingQuery(delimiter="-")
    page = fill_page(query, list_tree(tree_of(["a-b", "a-c"]), "", query))
    assert (page.prefixes, page.is_cut) == (["a-"], False)


@pytest.mark.parametrize(
    ("query", "decision"),
    [
        (ListingQuery(prefix="b"), DirectoryVisit.SKIP),
        (ListingQuery(after="b"), DirectoryVisit.SKIP),
        (ListingQuery(after="a/x"), DirectoryVisit.ENTER),
        (ListingQuery(after="a/", delimiter="/"), DirectoryVisit.SKIP),
        (ListingQuery(delimiter="/"), DirectoryVisit.JOIN),
        (ListingQuery(prefix="a/b/c", delimiter="/"), DirectoryVisit.ENTER),
    ],
)
def test_visits(query: ListingQuery, decision: DirectoryVisit) -> None:
    assert visit("a/", query) is decision


def test_a_directory_behind_the_page_is_not_entered() -> None:
    tree = tree_of(["a/f", "ab/g", "abx/h"])
    query = ListingQuery(prefix="ab/g")
    assert [entry.key for entry in list_tree(tree, "", query)] == ["ab/g"]
    assert list(list_tree(tree, "", ListingQuery(prefix="ab"))) != []
    assert list(list_tree(tree, "", ListingQuery(prefix="a", delimiter="/", after="abx/"))) == []


def test_empty_directories() -> None:
    tree = FileTree({"a": FileTree({}), "a-": File(), "b": FileTree({"c": FileTree({})})})
    query = ListingQuery()
    assert [entry.key for entry in list_tree(tree, "", query)] == ["a-", "a/", "b/c/"]
    query = ListingQuery(delimiter="/", after="a/")
    assert list(list_tree(tree, "", query)) == [CommonPrefix("b/")]
    query = ListingQuery(prefix="a/", delimiter="/")
    assert [entry.key for entry in list_tree(tree, "", query)] == ["a/"]


def test_a_base_stands_before_all_keys() -> None:
    tree = FileTree({"f": File(), "g": File()})
    query = ListingQuery(prefix="top/g")
    assert [entry.key for entry in list_tree(tree, "top/", query)] == ["top/g"]


def test_tokens() -> None:
    assert read_token(write_token("a/\u00fc")) == "a/\u00fc"
    for token in ("a", "\u00fc", "////", "_w=="):
        with pytest.raises(S3Refusal, match="is none of an earlier page"):
            read_token(token)


def test_limits() -> None:
    assert [read_limit(text, "max-keys") for text in ("", "0", "7", "9999")] == [1000, 0, 7, 1000]
    for text in ("-1", "x", "1" * 11, "\u0663"):
        with pytest.raises(S3Refusal, match="max-keys: must be a number"):
            read_limit(text, "max-keys")
