"""Manifests side by side."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lading.core.data import filetree, manifest
from lading.core.data.manifest_parts import are_apart, assemble, subtree

BLOCK = "d41d8cd98f00b204e9800998ecf8427e+0"
ONE = f". {BLOCK} 0:0:a.txt\n./sub {BLOCK} 0:0:b.txt\n"


def test_pieces_go_to_their_directories() -> None:
    text = assemble("", [(ONE, ""), (ONE, "log for x")], keep="log for ")
    assert [line.split(" ")[0] for line in text.splitlines()] == [
        ".",
        "./log\\040for\\040x",
        "./log\\040for\\040x/sub",
        "./sub",
    ]


def test_only_kept_directories_stay_and_pieces_replace() -> None:
    first = assemble("", [(ONE, ""), (ONE, "log for x"), (ONE, "log for y")], keep="log for ")
    second = assemble(first, [(f". {BLOCK} 0:0:new\n", "log for x")], keep="log for ")
    assert subtree(second, "log for x") == f". {BLOCK} 0:0:new\n"
    assert subtree(second, "log for y") == ONE
    assert "\n. " not in f"\n{second}"


def test_a_subtree_is_what_was_put_there() -> None:
    assert subtree(assemble("", [(ONE, "dir")], keep="x"), "dir") == ONE
    assert subtree(ONE, "su") == subtree(ONE, "") == ""


@given(
    st.dictionaries(
        st.text("abc /.", min_size=1, max_size=3), st.just(filetree.File()), max_size=3
    ),
    st.text("ab \\", min_size=1, max_size=4),
)
def test_the_result_is_a_manifest(files: dict[str, filetree.File], directory: str) -> None:
    names = {name.replace("/", "_").replace(".", "_"): file for name, file in files.items()}
    text = filetree.to_manifest(filetree.from_files(names))
    placed = assemble("", [(text, ""), (text, directory)], keep="x")
    assert manifest.counts(subtree(placed, directory)) == manifest.counts(text)


def test_names_may_have_what_other_programs_take_for_ends_of_lines() -> None:
    odd = f". {BLOCK} 0:0:a\u2028b\x85c\n./s\u2029t {BLOCK} 0:0:d\n"
    assert subtree(assemble("", [(odd, "in")], keep="in"), "in") == odd


def test_numbers_of_pieces_that_are_apart_add_up() -> None:
    clash = f"./log\\040for\\040y {BLOCK} 0:0:c.txt\n"
    pieces = [(ONE, ""), (ONE, "log for x"), (clash, "log for y")]
    assert are_apart(pieces, below="log for ")
    assert manifest.counts(assemble("", pieces, keep="log for ")) == (5, 0)
    assert not are_apart([(ONE, ""), (ONE, "")], below="log for ")
    assert not are_apart([(ONE, ""), (ONE, "other")], below="log for ")
    assert not are_apart([(ONE, "log for x"), (ONE, "log for x/sub")], below="log for ")
    assert not are_apart([(clash, ""), (ONE, "log for x")], below="log for ")
