"""Reads a crate that a stranger may have made: a directory, or an archive.

Names, numbers and sizes are checked before anything is read; links are never followed; an archive
is read in place, so that it cannot write anywhere, and not if it unpacks to far more than it is.
Every file must be in the list of checksums and match it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Protocol, Self

from lading.client.provenance.crate_writing import CHECKSUMS, unescaped
from lading.client.provenance.signing import LONGEST, verify
from lading.core.errors import Corrupt, Invalid, NotFound, TooLarge
from lading.process.portable import AS_BYTES, NO_INHERIT, NO_LINK, NO_WAIT

MOST_FILES: Final = 1_000_000
_MOST_TEXT: Final = 256 << 20
"""Bytes of a text that is read as a whole: checksums, a manifest."""
MOST_PARSED: Final = 64 << 20
"""Bytes of JSON that are in memory at a time: parsed they take up to 25 times as many."""
_MOST_RATIO: Final = 200
_MOST_SKIPPED: Final = 8
"""Times that an archive is read to reach positions in it."""
_FREE: Final = 64 << 20
"""Bytes that an archive may unpack to whatever its size is."""
_MOST_DIRECTORY: Final = 256 << 20
"""Bytes of the list of members of an archive."""
_PIECE: Final = 1 << 20
# What `zipfile` raises for a damaged archive; RuntimeError for an encrypted one.
_DAMAGED: Final = (
    zipfile.BadZipFile, OSError, ValueError, RuntimeError, EOFError, struct.error, IndexError,
)  # fmt: skip
# A line of sha256sum(1): a backslash before it means escapes in the name.
_LINE: Final = re.compile(r"(\\?)([0-9a-f]{64}) [ *](.+)")
# PATH_MAX of Linux.
_LONGEST_NAME: Final = 4096
_BAG: Final = "bagit.txt"
_SIGNATURE: Final = f"{CHECKSUMS}.sig"


@dataclass(slots=True)
class CrateReader:
    """A crate whose files are listed and checked by `check`."""

    path: Path
    signer: str = ""
    """Fingerprint of the key that has signed it; "" if nobody has."""
    _source: _Source = field(init=False)
    _sums: dict[str, str] = field(default_factory=dict)
    _file: IO[bytes] | None = None
    _path: str = ""
    _position: int = 0
    _skipped: int = 0

    def __enter__(self) -> Self:
        try:
            mode = self.path.stat().st_mode
        except OSError as error:
            raise NotFound(f"{self.path}: there is no such crate") from error
        self._source = _Folder(self.path) if stat.S_ISDIR(mode) else _Archive(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self._source.close()

    @property
    def paths(self) -> Iterable[str]:
        """The paths of all files, after `check`."""
        return self._sums.keys()

    def documents(self) -> Iterator[str]:
        """The paths of all files but data and blocks, with checksums and signature."""
        for path in (CHECKSUMS, _SIGNATURE, *self._sums):
            if path in self._source.sizes and not path.startswith(("data/", "blocks/")):
                yield path

    def size(self, path: str) -> int:
        """Bytes of a file. Raises NotFound, naming it."""
        if path not in self._source.sizes:
            raise NotFound(f"{_shown(path)}: is missing in the crate")
        return self._source.sizes[path]

    def check(self, signers: Iterable[bytes] = ()) -> None:
        """Check the signature and every file. Raises Invalid, Corrupt, NotFound or TooLarge with
        the name of what is wrong; Invalid without a signature if there must be one of `signers`.
        """
        if CHECKSUMS not in self._source.sizes and _BAG in self._source.sizes:
            raise Invalid(
                f"{self.path}: is a bag for other programs; "
                "`lading import` reads what `lading export` writes without --format"
            )
        listed = self._text(CHECKSUMS, _MOST_TEXT)
        trusted = frozenset(signers)
        if _SIGNATURE in self._source.sizes:
            signature = self._text(_SIGNATURE, LONGEST).decode(errors="replace")
            self.signer = verify(listed, signature, trusted)
        elif trusted:
            raise Invalid(f"{self.path}: is not signed, and you ask for a signature")
        self._sums = _parse(listed)
        others = self._source.sizes.keys() - self._sums.keys() - {CHECKSUMS, _SIGNATURE}
        if others:
            raise Corrupt(f"{_shown(min(others))}: is in the crate, and not in {CHECKSUMS}")
        for path, expected in self._sums.items():
            digest = hashlib.sha256()
            for piece in self.pieces(path):
                digest.update(piece)
            if digest.hexdigest() != expected:
                raise Corrupt(f"{_shown(path)}: was changed: its checksum is another")

    def pieces(self, path: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes of a file, or of a part of it. Raises NotFound, Corrupt."""
        left = self.size(path) - start if length is None else length
        try:
            file = self._opened(path, start)
            while left and (piece := file.read(min(left, _PIECE))):
                left -= len(piece)
                self._position += len(piece)
                yield piece
        except (*_DAMAGED, zlib.error) as error:
            raise Corrupt(f"{_shown(path)}: cannot be read: {_shown(str(error))}") from error
        if left:
            raise Corrupt(f"{_shown(path)}: is cut off")

    def _opened(self, path: str, start: int) -> IO[bytes]:
        """The file at a position. The last one stays open: in an archive a position is reached by
        reading all before it.
        """
        if self._file is None or self._path != path or self._position > start:
            self._close()
            self._file, self._path = self._source.opened(path), path
        if self._position != start:
            self._count_skipped(start - self._position)
            self._file.seek(start)
            self._position = start
        return self._file

    def _count_skipped(self, length: int) -> None:
        """Raise TooLarge for an archive that is read over and over to reach its pieces."""
        if not self._source.is_packed:
            return
        self._skipped += length
        if self._skipped > _MOST_SKIPPED * sum(self._source.sizes.values()) + _FREE:
            raise TooLarge(
                f"{self.path}: its blocks are scattered over its files; unpack it, and import "
                "the directory"
            )

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._position = None, 0

    def text(self, path: str) -> str:
        """A text, which `check` has checked. Raises NotFound, TooLarge, Corrupt."""
        try:
            return self._text(path, _MOST_TEXT).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise Corrupt(f"{_shown(path)}: is no text") from error

    def record(self, uuid: str) -> dict[str, Any]:
        """A record. Raises NotFound, Corrupt, naming it."""
        path = f"records/{uuid}.json"
        try:
            found = json.loads(self._text(path, MOST_PARSED))
        except (ValueError, RecursionError) as error:
            raise Corrupt(f"{path}: cannot be read as a record") from error
        if not isinstance(found, dict) or found.get("uuid") != uuid:
            raise Corrupt(f"{path}: is not the record of {uuid}")
        return found

    def _text(self, path: str, most: int) -> bytes:
        size = self.size(path)
        if size > most:
            raise TooLarge(f"{_shown(path)}: has {size} bytes; at most {most} are read")
        return b"".join(self.pieces(path))


class _Source(Protocol):
    sizes: dict[str, int]
    is_packed: bool
    """Whether a position is reached by reading all before it."""

    def opened(self, path: str) -> IO[bytes]:
        """The file, which the caller closes."""

    def close(self) -> None:
        """Close the open files."""


class _Folder:
    is_packed = False

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self.sizes = dict(self._walk())
        except OSError as error:
            raise Invalid(f"{path}: cannot be read: {error.strerror}") from error

    def _walk(self) -> Iterator[tuple[str, int]]:
        number = 0
        # Not os.walk: before Python 3.12 it calls itself for each level.
        folders = [self._path]
        while folders:
            folder = folders.pop()
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in entries)
            for name in names:
                path = folder / name
                status = path.lstat()
                shown = path.relative_to(self._path).as_posix()
                number += 1
                if number > MOST_FILES:
                    raise TooLarge(f"{self._path}: has more than {MOST_FILES} files")
                if stat.S_ISDIR(status.st_mode):
                    folders.append(path)
                elif stat.S_ISREG(status.st_mode):
                    yield shown, status.st_size
                else:
                    raise Invalid(f"{_shown(shown)}: is neither a file nor a folder")

    def opened(self, path: str) -> IO[bytes]:
        # It may have been replaced since it was listed,
        # by a link or a pipe.
        flags = os.O_RDONLY | NO_LINK | NO_INHERIT | NO_WAIT | AS_BYTES
        descriptor = os.open(self._path / path, flags)
        return os.fdopen(descriptor, "rb")

    def close(self) -> None:
        pass


class _Archive:
    is_packed = True

    def __init__(self, path: Path) -> None:
        _check_directory(path)
        try:
            self._zip = zipfile.ZipFile(path)
        except _DAMAGED as error:
            raise Invalid(f"{path}: is no archive of a crate: {_shown(str(error))}") from error
        self.sizes: dict[str, int] = {}
        try:
            self._list(path)
        except BaseException:
            self._zip.close()
            raise

    def _list(self, path: Path) -> None:
        total = 0
        for member in self._zip.infolist():
            _check_name(member.filename)
            if member.is_dir():
                continue
            if member.filename in self.sizes:
                raise Invalid(f"{_shown(member.filename)}: is twice in the archive")
            if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
                raise Invalid(f"{_shown(member.filename)}: is neither a file nor a folder")
            # Others have a dictionary of gigabytes, or expand by more.
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise Invalid(f"{_shown(member.filename)}: is neither stored nor deflated")
            self.sizes[member.filename] = member.file_size
            total += member.file_size
        room = path.stat().st_size * _MOST_RATIO + _FREE
        if total > room:
            raise TooLarge(f"{path}: unpacks to {total} bytes, far more than the archive has")

    def opened(self, path: str) -> IO[bytes]:
        return self._zip.open(path)

    def close(self) -> None:
        self._zip.close()


def _check_directory(path: Path) -> None:
    """Refuse an archive whose list of members is too long to be read. Raises TooLarge."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 65_557 - 76))
            tail = file.read()
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from error
    at, length, number = tail.rfind(b"PK\5\6"), 0, 0
    if at >= 0 and len(tail) >= at + 22:
        number, length = struct.unpack_from("<HI", tail, at + 10)
    at = tail.rfind(b"PK\6\6")
    if at >= 0 and len(tail) >= at + 56:
        number, length = struct.unpack_from("<QQ", tail, at + 32)
    if length > _MOST_DIRECTORY or number > MOST_FILES:
        raise TooLarge(f"{path}: has more than {MOST_FILES} members")


def _parse(listed: bytes) -> dict[str, str]:
    sums: dict[str, str] = {}
    try:
        lines = listed.decode("utf-8", "surrogatepass").split("\n")
    except UnicodeDecodeError as error:
        raise Corrupt(f"{CHECKSUMS}: is no text") from error
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if line and match is None:
            raise Corrupt(f"{CHECKSUMS}: line {number} is no checksum with a name")
        if match is not None:
            name = unescaped(match[3]) if match[1] else match[3]
            _check_name(name)
            sums[name] = match[2]
    if len(sums) > MOST_FILES:
        raise TooLarge(f"{CHECKSUMS}: lists more than {MOST_FILES} files")
    return sums


def _check_name(name: str) -> None:
    """Refuse a name that leaves the crate. Raises Invalid."""
    components = name.rstrip("/").split("/")
    if (
        len(name) > _LONGEST_NAME
        or name.startswith("/")
        or "\0" in name
        or any(component in ("", ".", "..") for component in components)
    ):
        raise Invalid(f"{_shown(name)}: is no name for a file of a crate")


def _shown(name: str) -> str:
    shown = name if name.isprintable() else repr(name)
    return shown if len(shown) <= 200 else f"{shown[:197]}..."
