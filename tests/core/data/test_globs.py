from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data.globs import (
    LONGEST_PATTERN,
    MOST_CHARACTERS,
    MOST_PATTERNS,
    check_globs,
    compile_globs,
    matches_nothing,
    relative_pattern,
)
from lading.core.errors import Invalid

TREE = ("foo", "bar", "baz/quux", "baz/parent1/item1")
NAMES = st.text(alphabet="ab.*[]\\!^-?", min_size=1, max_size=4).filter(
    lambda name: name not in (".", "..")
)
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


@pytest.mark.parametrize(
    "pattern", ["[", "[]", "[a", "[a-", "a\\", "[b-a]", "[a-\\", "[\\", "[^", "[^]"]
)
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


@pytest.mark.parametrize(
    ("written", "pattern"),
    [
        ("a.txt", "a.txt"),
        ("./a.txt", "a.txt"),
        (".//./a//b/./c", "a/b/c"),
        ("sub/", "sub/**"),
        ("./sub/./", "sub/**"),
        ("/out/a*", "a*"),
        ("/out", "**"),
        ("/out/", "**"),
        (".", "**"),
        ("./", "**"),
        (".hidden", ".hidden"),
        ("**", "**"),
    ],
)
def test_what_people_write_is_made_relative(written: str, pattern: str) -> None:
    assert relative_pattern(written, "/out") == pattern


@pytest.mark.parametrize("written", ["/abs", "/output/a", "../a", "a/..", "a/[b", "/"])
def test_what_can_match_nothing_is_refused(written: str) -> None:
    with pytest.raises(Invalid, match=r"below the output path"):
        relative_pattern(written, "/out")


@pytest.mark.parametrize(
    ("pattern", "is_dead"), [("./a", True), ("a/", True), ("", True), ("..", True), ("a", False)]
)
def test_patterns_that_match_nothing(pattern: str, is_dead: bool) -> None:
    assert matches_nothing(pattern) is is_dead


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


def _matches(pattern: str, name: str) -> bool:
    """The definition, slow: of an element with `*` and `?` only."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(_matches(pattern[1:], name[at:]) for at in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and _matches(pattern[1:], name[1:])


def _matches_path(pattern: list[str], path: list[str]) -> bool:
    """The same for the elements of a path of a file."""
    if not pattern:
        return not path
    if pattern == ["**"]:
        return bool(path)
    if pattern[0] == "**":
        return any(_matches_path(pattern[1:], path[at:]) for at in range(len(path) + 1))
    return bool(path) and _matches(pattern[0], path[0]) and _matches_path(pattern[1:], path[1:])


PLAIN = st.text(alphabet="ab", min_size=1, max_size=6)
STARRED = st.text(alphabet="ab*?", min_size=1, max_size=6).filter(lambda text: text != "**")


@given(STARRED, PLAIN)
def test_stars_match_as_they_are_defined(pattern: str, name: str) -> None:
    assert compile_globs([pattern]).keeps_file(name) == _matches(pattern, name)


@given(
    st.lists(
        st.lists(st.one_of(STARRED, st.just("**")), min_size=1, max_size=5), min_size=1, max_size=3
    ),
    st.lists(st.lists(PLAIN, min_size=1, max_size=4), min_size=1, max_size=5),
)
def test_paths_match_as_they_are_defined_in_whatever_order_they_come(
    patterns: list[list[str]], paths: list[list[str]]
) -> None:
    globs = compile_globs("/".join(one) for one in patterns)
    for path in paths:
        assert globs.keeps_file("/".join(path)) == any(_matches_path(one, path) for one in patterns)


@pytest.mark.parametrize(
    "pattern", ["a*" * 120 + "b", "*?" * 120 + "b", "**/" * 30 + "*a" * 40 + "*b", "*" * 250 + "b"]
)
def test_many_stars_take_no_longer_than_one(pattern: str) -> None:
    globs = compile_globs([pattern])
    for number in range(200):
        assert not globs.keeps_file("d/" * (number % 7) + "a" * 255)


def test_a_name_that_no_file_can_have_is_matched_by_two_stars_alone() -> None:
    name = "a" * (LONGEST_PATTERN + 1)
    assert not compile_globs(["*"]).keeps_file(name)
    assert compile_globs(["**"]).keeps_file(name)


def test_many_directories_are_not_all_remembered() -> None:
    globs = compile_globs(["*/a"])
    assert all(globs.keeps_file(f"{number}/a") for number in range(2000))


def test_patterns_are_limited_in_number_and_length() -> None:
    check_globs([])
    check_globs(["a"] * MOST_PATTERNS)
    for patterns, words in (
        (["a"] * (MOST_PATTERNS + 1), "1001 patterns, and 1000 are allowed"),
        (["a" * (LONGEST_PATTERN + 1)], "pattern of 4097 characters"),
        (["a" * 4096] * 17, f"69632 characters together, and {MOST_CHARACTERS}"),
    ):
        with pytest.raises(Invalid, match=words):
            check_globs(patterns)
