"""Sources of mounts, and the steps on the host that make them."""

from __future__ import annotations

import pytest

from lading.core.containers.mounting.mount_steps import (
    BLOB,
    CollectionPath,
    GitTree,
    KeepTree,
    WriteFile,
)
from tests.core.containers.mounting.test_mount_plan import PDH


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"by_id/{PDH}", CollectionPath(PDH)),
        (f"by_id/{PDH}/a/b", CollectionPath(PDH, "a/b")),
        ("by_id/zzzzz-4zz18-000000000000000/a", None),
        (f"home/{PDH}", None),
        ("by_id", None),
        ("", None),
    ],
)
def test_what_a_portable_data_hash_names_in_it(path: str, expected: CollectionPath | None) -> None:
    assert KeepTree(path).collection == expected


def test_the_content_of_a_file_is_in_no_message() -> None:
    assert repr(WriteFile("/p", b"hush", writable=True)) == "WriteFile('/p', writable=True)"


def test_a_git_tree_has_a_key_in_the_cache() -> None:
    assert GitTree("a" * 40, BLOB).key == f"git-{'a' * 40}"
