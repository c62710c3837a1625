"""Content of files and directories, whatever their names and neighbours."""

from __future__ import annotations

import hashlib

import pytest

from lading.core.data import content, filetree
from lading.core.data.filetree import File, FileTree, Segment
from lading.core.data.locator import MAX_BLOCK
from lading.core.values import JsonObject


def block(data: bytes) -> str:
    return f"{hashlib.md5(data).hexdigest()}+{len(data)}"


def read(name: str) -> FileTree:
    found = filetree.get(TREE, name)
    assert isinstance(found, FileTree)
    return found


PACKED = b"first" + b"second"
TREE = filetree.from_manifest(
    f". {block(PACKED)}+Ahint@1 {block(b'second')} 0:5:one 5:6:two 11:6:alone 0:0:empty\n"
    f"./sub {block(PACKED)} {block(b'x')} 0:5:one 9:3:spread\n"
)


def file(name: str) -> File:
    found = filetree.get(TREE, name)
    assert isinstance(found, File)
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [("one", True), ("two", True), ("alone", False), ("empty", False), ("sub/spread", True)],
)
def test_a_file_that_is_a_block_of_its_own_needs_no_bytes(name: str, expected: bool) -> None:
    assert content.needs_bytes(file(name)) is expected


def test_large_and_scattered_files_are_not_read() -> None:
    part = Segment(f"{'a' * 32}+{MAX_BLOCK}", 1, MAX_BLOCK - 1)
    assert not content.needs_bytes(File((part, part)))
    scattered = tuple(Segment(block(b"xyz"), 1, 1) for _ in range(content.MAX_SEGMENTS + 1))
    assert not content.needs_bytes(File(scattered))
    assert content.of_file(File((part, part))) != content.of_file(File((part,)))


def test_equal_bytes_are_equal_content_however_they_are_stored() -> None:
    assert content.of_file(file("alone")) == content.of_bytes(b"second")
    found = content.in_block(TREE, block(PACKED), PACKED)
    assert found == {
        "one": content.of_bytes(b"first"),
        "two": content.of_bytes(b"second"),
        "sub/one": content.of_bytes(b"first"),
    }
    assert content.of_file(file("empty")) == content.of_file(File())


def test_a_directory_is_named_by_its_own_manifest() -> None:
    own = f". {block(PACKED)} {block(b'x')} 0:5:one 9:3:spread\n"
    expected: JsonObject = {
        "portable_data_hash": f"{hashlib.md5(own.encode()).hexdigest()}+{len(own)}"
    }
    assert content.of_directory(read("sub")) == expected
