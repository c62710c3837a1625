"""Addresses of files."""

from __future__ import annotations

import pytest

from lading.client.remote_files.addresses import join, parent_of, plain_path, split_address
from lading.core.errors import Invalid


def test_names_of_an_address() -> None:
    assert split_address("lading://project/data/a.txt") == ["project", "data", "a.txt"]
    assert split_address("/project/data/") == ["project", "data"]
    assert split_address("lading://") == []
    assert plain_path("lading://c/x/") == "c/x"


@pytest.mark.parametrize("address", ["a//b", "a/../b", "./a", "a/\0"])
def test_what_names_no_file_is_refused(address: str) -> None:
    with pytest.raises(Invalid, match="write lading://PROJECT/COLLECTION/FILE"):
        split_address(address)


def test_joined_and_parted() -> None:
    assert join("", "a") == "a"
    assert join("a", "b") == "a/b"
    assert parent_of("a/b") == "a"
    assert parent_of("a") == ""
