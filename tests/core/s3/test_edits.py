from __future__ import annotations

import pytest

from lading.core import ids
from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.s3.edits import delete_keys, put_directory, put_file
from lading.core.s3.refusals import S3Refusal

TREE = filetree.from_files(
    {"a/b/f": File(), "a/b/g": File(), "a/h": File(), "e": FileTree({}), "i": File()}
)


def test_puts() -> None:
    assert put_file(TREE, "a/b/f") == {"/a/b/f": "manifest_text/file"}
    assert put_file(TREE, "x/y") == {"/x/y": "manifest_text/file"}
    assert put_directory(TREE, "x/y") == {"/x/y": ids.EMPTY_PDH}
    assert put_directory(TREE, "a/b") == {}


@pytest.mark.parametrize("path", ["i/f", "a/h/x/y"])
def test_nothing_is_below_an_object(path: str) -> None:
    for put in (put_file, put_directory):
        with pytest.raises(S3Refusal, match="which has nothing below it"):
            put(TREE, path)


def test_files_and_directories_exclude_each_other() -> None:
    with pytest.raises(S3Refusal, match="other keys are below it"):
        put_file(TREE, "a/b")
    with pytest.raises(S3Refusal, match="is an object"):
        put_directory(TREE, "i")


@pytest.mark.parametrize(
    ("keys", "paths"),
    [
        (["i"], ["/i"]),
        (["a/b/f"], ["/a/b/f"]),
        (["a/b/f", "a/b/g"], ["/a/b"]),
        (["a/b/f", "a/b/g", "a/h", "i"], ["/a", "/i"]),
        (["e/"], ["/e"]),
        (["e", "a/", "i/", "none", "../x", ""], []),
    ],
)
def test_deletions(keys: list[str], paths: list[str]) -> None:
    assert delete_keys(TREE, keys) == dict.fromkeys(paths, "")
