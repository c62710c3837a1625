"""Outputs of tasks in output collections."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.data.filetree import File, FileTree, Segment, from_files
from lading.core.errors import TooLarge
from lading.core.tes import outputs
from lading.core.tes.document import read_task
from lading.core.tes.outputs import find_outputs


def tree(*paths: str) -> FileTree:
    """Files with as many bytes as their paths have, and directories, whose paths end in a slash."""
    return from_files(
        {
            path.removesuffix("/"): FileTree()
            if path.endswith("/")
            else File((Segment("0" * 32 + "+99", 0, len(path)),))
            for path in paths
        }
    )


def find(content: FileTree, *outputs: dict[str, Any], **more: Any) -> Any:
    task = {
        "executors": [{"image": "a", "command": ["b"]}],
        "outputs": [{"url": "keep:", **one} for one in outputs],
        **more,
    }
    return find_outputs(read_task(task), content)


def test_files_and_directories() -> None:
    content = tree("a", "d/b", "d/e/c", "empty/", "other")
    found = find(
        content,
        {"path": "/out/a"},
        {"path": "/out/d/", "type": "DIRECTORY"},
        {"path": "/out/empty", "type": "DIRECTORY"},
        {"path": "/out/none"},
    )
    assert [(one.path, one.stored, one.size) for one in found.files] == [
        ("/out/a", "a", 1),
        ("/out/d/b", "d/b", 3),
        ("/out/d/e/c", "d/e/c", 5),
    ]
    assert (found.missing, found.unmatched) == (("/out/none",), ())
    lenient = find(content, {"path": "/out/none"}, tags={"lading.missing_outputs": "ignore"})
    assert (lenient.missing, lenient.unmatched) == ((), ("/out/none",))
    backend = {"backend_parameters": {"Missing_Outputs": "ignore"}}
    assert find(content, {"path": "/out/none"}, resources=backend).missing == ()


def test_outputs_in_each_other() -> None:
    content = tree("x/a")
    found = find(content, {"path": "/out/x", "path_prefix": "/odd"}, {"path": "/out/x/a"})
    assert [one.path for one in found.files] == ["/out/x/a"]


def test_where_files_go() -> None:
    content = tree("a", "d/b c", "d/e/", "f/", "x.txt")
    found = find(
        content,
        {"path": "/out/a", "url": "s3://b/a"},
        {"path": "/out/a", "url": "s3://b/again"},
        {"path": "/out/d", "url": "https://h/d/", "type": "DIRECTORY"},
        {"path": "/out/d", "url": "file:///d", "type": "DIRECTORY"},
        {"path": "/out/f/", "url": "/f", "type": "DIRECTORY"},
        {"path": "/out/*.txt", "path_prefix": "/out/", "url": "s3://b/t/"},
    )
    assert [one.url for one in found.files] == [
        "s3://b/a",
        "s3://b/again",
        "https://h/d/b%20c",
        "file:///d/b%20c",
        "s3://b/t/x.txt",
    ]
    assert found.directories == ("file:///d/e", "/f")


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("*", ["a.txt", "d/b.txt", "d/.dot", "d/e/c.txt"]),
        ("**", ["a.txt", "d/b.txt", "d/.dot", "d/e/c.txt"]),
        ("*.txt", ["a.txt"]),
        ("?.txt", ["a.txt"]),
        ("[!b].txt", ["a.txt"]),
        (".*", [".h"]),
        ("d/*", ["d/b.txt", "d/e/c.txt"]),
        ("*/*.txt", ["d/b.txt"]),
        ("e*", []),
    ],
)
def test_wildcards(pattern: str, matched: list[str]) -> None:
    content = tree("a.txt", ".h", "d/b.txt", "d/.dot", "d/e/c.txt")
    found = find(content, {"path": f"/out/{pattern}", "path_prefix": "/out"})
    assert sorted(one.stored for one in found.files) == sorted(matched)
    assert found.unmatched == (() if matched else (f"/out/{pattern}",))
    assert found.missing == ()


def test_the_work_for_outputs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    content = tree("a", "b", "c")
    monkeypatch.setattr(outputs, "MOST_FILES", 2)
    with pytest.raises(TooLarge, match="more than 2 files and directories"):
        find(content, {"path": "/out/*", "path_prefix": "/out"})
    monkeypatch.setattr(outputs, "MOST_COMPARED", 2)
    with pytest.raises(TooLarge, match="too many to compare"):
        find(content, {"path": "/out/*", "path_prefix": "/out"})
