"""The files of an archive or a directory that has an image.

`Members` reads files of an image archive or directory by name, without unpacking it. The names are
untrusted: links are followed inside the archive only, and nothing outside a directory is read.
"""

from __future__ import annotations

import posixpath
import tarfile
from pathlib import Path
from typing import Protocol

import msgspec

from lading.client.images.steps import UNWATCHED, ImageSteps
from lading.client.images.tar_reader import TarReader, members
from lading.core.errors import Malformed

# Bytes read at a time.
CHUNK = 1 << 20
# Bytes of a manifest or configuration; more is refused as damaged.
_MAX_DOCUMENT = 16 << 20
# Links that are followed for one name; a loop ends here.
_MAX_LINKS = 8


class Slice(msgspec.Struct, frozen=True):
    """`size` bytes at `offset` of the file `path`."""

    path: Path
    offset: int
    size: int


class Members(Protocol):
    """Files by name."""

    source: str

    def find(self, name: str) -> Slice | None:
        """Position of the file with this name; None if there is none."""
        ...

    def tops(self) -> set[str]:
        """The first path components of all names."""
        ...


class _Member(msgspec.Struct, frozen=True):
    """The facts that are read from the header of an archive: the range of a file, or the name a
    link leads to.
    """

    is_file: bool
    is_sparse: bool
    offset: int
    size: int
    target: str


def _brief(member: tarfile.TarInfo, name: str) -> _Member:
    target = ""
    if member.issym():
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
    elif member.islnk():
        target = posixpath.normpath(member.linkname)
    return _Member(
        member.isreg(), member.issparse(), member.offset_data, max(member.size, 0), target
    )


class TarMembers:
    """The files of an uncompressed tar. Raises Malformed for other files."""

    def __init__(self, path: Path, source: str, *, steps: ImageSteps = UNWATCHED) -> None:
        self.source = source
        self._path = path
        # Not the headers themselves, of which an archive of a stranger has millions.
        self._members: dict[str, _Member] = {}
        try:
            with TarReader.open(path, "r:") as tar:
                for member in members(tar):
                    steps.check()
                    name = posixpath.normpath(member.name).lstrip("/")
                    self._members[name] = _brief(member, name)
        except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
            raise Malformed(f"{source}: neither an image nor a tar archive: {error}") from error

    def find(self, name: str) -> Slice | None:
        """Position of the file with this name; symbolic links are followed inside the archive."""
        name = posixpath.normpath(name)
        for _ in range(_MAX_LINKS):
            member = self._members.get(name)
            if member is None:
                return None
            if member.is_sparse:
                # Its data is stored without the holes, so it is not one range of the archive.
                raise Malformed(f"{self.source}: damaged image: {name[:100]!r} is a sparse file")
            if member.is_file:
                return Slice(self._path, member.offset, member.size)
            if not member.target:
                return None
            name = member.target
        return None

    def tops(self) -> set[str]:
        """The first path components of all names."""
        return {name.split("/", 1)[0] for name in self._members}


class DirectoryMembers:
    """The files below a directory."""

    def __init__(self, path: Path, source: str) -> None:
        self.source = source
        self._root = path.resolve()

    def find(self, name: str) -> Slice | None:
        """Position of the file with this name; files outside the directory are not found."""
        path = (self._root / name).resolve()
        if not path.is_relative_to(self._root) or not path.is_file():
            return None
        return Slice(path, 0, path.stat().st_size)

    def tops(self) -> set[str]:
        """The names in the directory."""
        return {path.name for path in self._root.iterdir()}


def read_document(members: Members, name: str, *, limit: int = _MAX_DOCUMENT) -> bytes:
    """The bytes of a small file. Raises Malformed when it is absent or has over `limit` bytes."""
    piece = members.find(name)
    if piece is None:
        raise Malformed(f"{members.source}: damaged image: {name} is missing")
    if piece.size > limit:
        raise Malformed(f"{members.source}: damaged image: {name} has {piece.size} bytes")
    with piece.path.open("rb") as file:
        file.seek(piece.offset)
        return file.read(piece.size)
