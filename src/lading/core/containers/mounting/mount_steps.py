"""Sources of mounts, and the steps on the host that make them."""

from __future__ import annotations

import msgspec

from lading.core.ids import is_pdh

BY_ID = "by_id"
"""Directory of the keep tree with collections by their ids."""

BLOB = "blob"
"""Kind of a git blob, and the name of its file in a directory of its own."""


class HostPath(msgspec.Struct, frozen=True):
    """A file or directory of the host."""

    path: str


class CollectionPath(msgspec.Struct, frozen=True):
    """A file or directory of a collection; `path` is relative, "" is the whole collection."""

    pdh: str
    path: str = ""


class GitTree(msgspec.Struct, frozen=True):
    """A git tree or blob by its hash, or with `path` an entry of the tree."""

    hash: str
    kind: str
    path: str = ""

    @property
    def key(self) -> str:
        """Key of the tree or blob in the cache of a machine."""
        return f"git-{self.hash}"


class KeepTree(msgspec.Struct, frozen=True):
    """The tree of all readable collections, or with `path` an entry of it."""

    path: str = ""

    @property
    def collection(self) -> CollectionPath | None:
        """The collection at this path, when a portable data hash names it."""
        top, _, rest = self.path.partition("/")
        pdh, _, path = rest.partition("/")
        return CollectionPath(pdh, path) if top == BY_ID and is_pdh(pdh) else None


class LivePath(msgspec.Struct, frozen=True):
    """A file or directory below a live root, which the configuration of the machine names."""

    root: str
    path: str = ""


class ImagePath(msgspec.Struct, frozen=True):
    """A file of the container's root file system, outside its mounts."""

    path: str


Source = HostPath | CollectionPath | GitTree | KeepTree | LivePath | ImagePath


class MakeDirectory(msgspec.Struct, frozen=True):
    """Make a directory that everybody may write to (mode 2777), parents included.

    `in_memory`: on a file system in memory where the host supports it, of at most `capacity` bytes
    unless that is 0.
    """

    path: str
    in_memory: bool = False
    capacity: int = 0


class WriteFile(msgspec.Struct, frozen=True):
    """Write a file; `writable`: by all users (0777), else by none (0444)."""

    path: str
    content: bytes
    writable: bool = False

    def __repr__(self) -> str:
        """The path and the mode. The content is left out, as it may be secret."""
        return f"WriteFile({self.path!r}, writable={self.writable})"


class SecretVariable(msgspec.Struct, frozen=True):
    """An environment variable with the content of a secret mount."""

    name: str
    value: str

    def __repr__(self) -> str:
        """The name alone."""
        return f"SecretVariable({self.name!r})"


class CopyCollection(msgspec.Struct, frozen=True):
    """Copy a file or the content of a directory of a collection to `path`, writable for
    everybody.
    """

    source: CollectionPath
    path: str


Step = MakeDirectory | WriteFile | CopyCollection
