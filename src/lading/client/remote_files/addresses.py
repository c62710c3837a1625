"""Addresses of files: `lading://project/collection/directory/file`.

The first name is a project or a collection in the caller's home, the uuid of a project, user,
collection, request or container, or a portable data hash. Names of projects lead to a collection;
names behind a collection are those of its directories and files.
"""

from __future__ import annotations

from typing import Final

from lading.core.data import manifest
from lading.core.errors import Invalid

SCHEME: Final = "lading"
_PREFIX: Final = f"{SCHEME}://"
_LONGEST: Final = 80
"""Characters of an address in a message."""


def plain_path(address: str) -> str:
    """The names of an address with `/` between them; "" for the home."""
    return address.removeprefix(_PREFIX).strip("/")


def split_address(address: str) -> list[str]:
    """The names of an address, none for the home. Raises Invalid for an address that names no
    file.
    """
    path = plain_path(address)
    if not path:
        return []
    if fault := manifest.fault_of(path):
        raise Invalid(
            f"{address[:_LONGEST]!r}: no address of a file: {fault}; "
            f"write {_PREFIX}PROJECT/COLLECTION/FILE"
        )
    return path.split("/")


def join(parent: str, name: str) -> str:
    """The path of a name in a directory."""
    return f"{parent}/{name}" if parent else name


def parent_of(path: str) -> str:
    """The path of the directory above; "" at the top."""
    return path.rpartition("/")[0]
