from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data import filetree, splice
from lading.core.data.filetree import File, FileTree, Segment
from lading.core.errors import Malformed
from lading.core.ids import EMPTY_PDH
from lading.core.records.schema import JSON
from tests.core.data.test_filetree import trees

A = f"{'a' * 32}+10"
B = f"{'b' * 32}+10"
PDH = f"{'c' * 32}+50"
ONE = File((Segment(A, 0, 10),))
TWO = File((Segment(B, 0, 10),))
CURRENT = filetree.from_files({"a": ONE, "d/b": TWO})


def spliced(spec: JSON, *, supplied: FileTree | None = None) -> dict[str, filetree.Node]:
    sources = splice.read_files(spec, supplied=supplied is not None)
    contents = dict.fromkeys(splice.contents_of(sources), filetree.from_files({"x/y": TWO}))
    return dict(
        filetree.walk(
            splice.replace_files(
                CURRENT, sources, supplied=supplied or FileTree(), contents=contents
            )
        )
    )


def paths(spec: JSON, *, supplied: FileTree | None = None) -> list[str]:
    return list(spliced(spec, supplied=supplied))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["a", "d", "d/b"]),
        ({"/a": ""}, ["d", "d/b"]),
        ({"/d/b": ""}, ["a", "d"]),
        ({"/no/where": "", "/a/below": ""}, ["a", "d", "d/b"]),
        ({"/": ""}, []),
        ({"/": "", "/new/a": "current/a"}, ["new", "new/a"]),
        ({"/": "current/d"}, ["b"]),
        ({"/": "current"}, ["a", "d", "d/b"]),
        ({"/": "current/"}, ["a", "d", "d/b"]),
        ({"/": f"{PDH}/x"}, ["y"]),
        ({"/e": EMPTY_PDH}, ["a", "d", "d/b", "e"]),
        ({"/c": PDH}, ["a", "c", "c/x", "c/x/y", "d", "d/b"]),
        ({"/c": f"{PDH}/"}, ["a", "c", "c/x", "c/x/y", "d", "d/b"]),
        ({"/d": "", "/d/e/f": f"{PDH}/x/y"}, ["a", "d", "d/e", "d/e/f"]),
        ({"/a": "", "/a/b": "current/a"}, ["a", "a/b", "d", "d/b"]),
    ],
)
def test_files(spec: dict[str, str], expected: list[str]) -> None:
    assert paths(spec) == expected


def test_files_are_swapped_by_their_state_before() -> None:
    found = spliced({"/a": "current/d/b", "/d/b": "current/a"})
    assert (found["a"], found["d/b"]) == (TWO, ONE)


def test_files_of_the_supplied_manifest() -> None:
    supplied = filetree.from_files({"n": ONE, "m": TWO})
    found = spliced({"/d/n": "manifest_text/n"}, supplied=supplied)
    assert list(found) == ["a", "d", "d/b", "d/n"]
    assert paths({"/s": "manifest_text"}, supplied=supplied) == ["a", "d", "d/b", "s", "s/m", "s/n"]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ([], "must be an object"),
        ({"a": ""}, "invalid replace_files target"),
        ({"": ""}, "invalid replace_files target"),
        ({"/a/": ""}, "invalid replace_files target"),
        ({"//a": ""}, "invalid replace_files target"),
        ({"/a/../b": ""}, "invalid replace_files target"),
        ({"/a\0": ""}, "invalid replace_files target"),
        ({"/a\ud800": ""}, "invalid replace_files target"),
        ({"/" + "/".join("a" * 10_000): ""}, "invalid replace_files target"),
        ({"/" + "n" * 256: ""}, "invalid replace_files target"),
        ({"/a": "elsewhere/b"}, "invalid replace_files source"),
        ({"/a": "/b"}, "invalid replace_files source"),
        ({"/a": 5}, "invalid replace_files source"),
        ({"/a": None}, "invalid replace_files source"),
        ({"/a": "current/../b"}, "invalid replace_files source"),
        ({"/a": "current//b"}, "invalid replace_files source"),
        ({"/a": "current/\ud800"}, "invalid replace_files source"),
        ({"/a": "current/b"}, "is not there"),
        ({"/a": "current/a/b"}, "is not there"),
        ({"/": "current/a"}, "root"),
        ({"/a/b": "current/d/b"}, "nothing can be placed below it"),
        ({"/d": "current/d", "/d/e": "current/a"}, "'/d/e' lies inside target '/d'"),
        ({"/": "current/d", "/e": ""}, "'/e' lies inside target '/'"),
    ],
)
def test_faults_of_files(spec: JSON, fault: str) -> None:
    with pytest.raises(Malformed) as caught:
        spliced(spec)
    assert fault in caught.value.message
    assert len(caught.value.message) < 700


def test_a_manifest_that_nothing_uses_is_refused() -> None:
    with pytest.raises(Malformed, match="no source refers to it"):
        splice.read_files({"/a": ""}, supplied=True)


@given(
    trees,
    st.dictionaries(
        st.sampled_from(["/a", "/b", "/a/b", "/c/d"]), st.sampled_from(["", "current/a"])
    ),
)
def test_what_is_not_named_stays(tree: FileTree, spec: dict[str, JSON]) -> None:
    try:
        after = splice.replace_files(
            tree, splice.read_files(spec, supplied=False), supplied=FileTree(), contents={}
        )
    except Malformed:
        return
    touched = [target[1:] for target in spec]
    for path, node in filetree.walk(tree):
        near = any(
            f"{path}/".startswith(f"{one}/") or f"{one}/".startswith(f"{path}/") for one in touched
        )
        assert near or filetree.find(after, path) == node
    for target, source in spec.items():
        wanted = filetree.find(tree, "a") if source else None
        if not any(other != target and other.startswith(f"{target}/") for other in spec):
            assert filetree.find(after, target[1:]) == wanted


def repointed(tree: FileTree, spec: JSON) -> FileTree:
    return splice.replace_segments(tree, splice.read_segments(spec))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({f"{A} 0 10": f"{B} 0 10"}, ((B, 0, 10),)),
        ({f"{A}+Ax@1 0 10": f"{B} 0 10"}, ((B, 0, 10),)),
        ({f"{A} 2 3": f"{B} 7 3"}, ((A, 0, 2), (B, 7, 3), (A, 5, 5))),
        ({f"{A} 0 2": f"{B} 1 2", f"{A} 2 2": f"{B} 3 2"}, ((B, 1, 4), (A, 4, 6))),
        ({f"{A} 9 1": f"{B} 0 1", f"{A} 0 1": f"{B} 9 1"}, ((B, 9, 1), (A, 1, 8), (B, 0, 1))),
        ({f"{B} 0 5": f"{A} 5 5"}, ((A, 0, 10),)),
        (
            {f"{A} 4 2": f"{B} 0 2", f"{A} 1 1": f"{B} 9 1"},
            ((A, 0, 1), (B, 9, 1), (A, 2, 2), (B, 0, 2), (A, 6, 4)),
        ),
    ],
)
def test_segments(spec: dict[str, JSON], expected: tuple[tuple[str, int, int], ...]) -> None:
    tree = repointed(FileTree({"d": FileTree({"f": ONE})}), spec)
    assert filetree.get(tree, "d/f") == File(tuple(Segment(*one) for one in expected))


def test_a_file_that_uses_a_part_is_repointed_for_that_part() -> None:
    tree = FileTree({"f": File((Segment(A, 3, 2), Segment(B, 0, 1), Segment(A, 6, 4)))})
    spec = {f"{A} 0 2": f"{B} 0 2", f"{A} 4 3": f"{B} 5 3"}  # the first ends before the file begins
    other = FileTree({"f": File((Segment(A, 0, 1),))})
    assert repointed(other, {f"{A} 1 2": f"{B} 0 2"}) == other
    assert repointed(tree, spec).entries["f"] == File(
        (Segment(A, 3, 1), Segment(B, 5, 1), Segment(B, 0, 1), Segment(B, 7, 1), Segment(A, 7, 3))
    )


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ([], "must be an object"),
        ({"x": f"{B} 0 10"}, "not '<locator> <offset> <length>'"),
        ({f"{A} 0 10": "x"}, "not '<locator> <offset> <length>'"),
        ({f"{A} 0 10": 5}, "not '<locator> <offset> <length>'"),
        ({f"{A} 0 10": f"{B} 0 9"}, "its replacement has 9 bytes"),
        ({f"{A} 5 6": f"{B} 0 6"}, "no bytes of this block"),
        ({f"{A} 5 0": f"{B} 0 0"}, "no bytes of this block"),
        ({f"{A} 0 5": f"{B} 0 5", f"{A} 4 2": f"{B} 0 2"}, "overlaps"),
    ],
)
def test_faults_of_segments(spec: JSON, fault: str) -> None:
    with pytest.raises(Malformed, match=fault):
        splice.read_segments(spec)


@given(trees)
def test_segments_keep_sizes_and_names(tree: FileTree) -> None:
    blocks = {
        filetree.bare(one.locator) for _, file in filetree.files(tree) for one in file.segments
    }
    spec = {
        f"{one} 0 1": f"{B} {number % 10} 1"
        for number, one in enumerate(sorted(blocks))
        if one[33:] != "0"
    }
    after = repointed(tree, spec)
    assert [path for path, _ in filetree.walk(after)] == [path for path, _ in filetree.walk(tree)]
    assert [file.size for _, file in filetree.files(after)] == [
        file.size for _, file in filetree.files(tree)
    ]
