from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.globs import compile_globs

TREE = ("foo", "bar", "baz/quux", "baz/parent1/item1")
NAMES = st.text(alphabet="ab.*[]\\!^-?", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PATTERNS = st.lists(st.one_of(NAMES, st.just("**")), min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        ([], TREE),
        (["*"], ("foo", "bar")),
        (["b*/**"], ("baz/quux", "baz/parent1/item1")),
        (["baz"], ()),
        (["baz/*"], ("baz/quux",)),
        (["**/*m1"], ("baz/parent1/item1",)),
        (["foo*/**", "foo/**"], ()),
        (["f*", "**/q*"], ("foo", "baz/quux")),
        (["**"], TREE),
        (["baz/**/item1"], ("baz/parent1/item1",)),
        (["**/**/quux"], ("baz/quux",)),
        (["[fx]oo"], ("foo",)),
        (["[^f]*"], ("bar",)),
        (["[!f]*"], ("bar",)),
        (["[a-c]a[q-s]"], ("bar",)),
        (["?oo"], ("foo",)),
        (["f\\oo"], ("foo",)),
        (["/foo", "foo/", "a//b", ""], ()),
    ],
)
def test_the_worked_cases(patterns: list[str], kept: tuple[str, ...]) -> None:
    globs = compile_globs(patterns)
    assert tuple(path for path in TREE if globs.keeps_file(path)) == kept


@pytest.mark.parametrize("pattern", ["[", "[]", "[a", "[a-", "a\\", "[b-a]", "[a-\\", "[\\", "[^", "[^]"])
def test_an_invalid_pattern_matches_nothing(pattern: str) -> None:
    assert compile_globs([pattern]).patterns == ()


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("[]]", "]", True),
        ("[]-a]", "^", True),
        ("[a-]", "-", True),
        ("[\\]]", "]", True),
        ("[a\\-c]", "b", False),
        ("a.c", "abc", False),
        ("*", "a\nb", True),
        ("a*", "a/b", False),
    ],
)
def test_classes_and_characters(pattern: str, name: str, matches: bool) -> None:
    assert compile_globs([pattern]).keeps_file(name) is matches


@pytest.mark.parametrize(
    ("pattern", "directory", "below"),
    [
        ("*", "abc", False),
        ("*/*", "abc/def", False),
        ("*/*/*", "abc/def", True),
        ("**/bar", "abc/def", True),
        ("abc/**", "abc", True),
        ("x", "", True),
    ],
)
def test_what_may_be_below_a_directory(pattern: str, directory: str, below: bool) -> None:
    assert compile_globs([pattern]).may_keep_below(directory) is below


def test_a_directory_matches_itself() -> None:
    globs = compile_globs(["dir/**"])
    assert globs.keeps_directory("dir")
    assert not globs.keeps_file("dir")
    assert globs.keeps_all_below("dir/sub")
    assert not globs.keeps_all_below("")


def test_everything_is_kept_without_patterns() -> None:
    globs = compile_globs([])
    assert globs.keeps_directory("a")
    assert globs.may_keep_below("")
    assert globs.keeps_all_below("")


@given(st.lists(PATTERNS, max_size=3), PATHS, NAMES)
def test_looking_below_never_misses_a_file(patterns: list[str], directory: str, name: str) -> None:
    globs = compile_globs(patterns)
    if globs.keeps_file(f"{directory}/{name}"):
        assert globs.may_keep_below(directory)
    if globs.keeps_all_below(directory):
        assert globs.keeps_file(f"{directory}/{name}")


@given(PATHS)
def test_a_path_whose_characters_are_escaped_matches_itself_only(path: str) -> None:
    escaped = "".join(char if char == "/" else f"\\{char}" for char in path)
    globs = compile_globs([escaped])
    assert globs.keeps_file(path)
    assert not globs.keeps_file(path + "x")
