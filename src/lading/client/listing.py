"""What is on disk below some paths, in the order in which it is stored."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lading.core.errors import Invalid

_DEEPEST = 200
_LONGEST = 300
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


Stamp = tuple[int, int, int, int, int]
"""Size, time of modification, time of change, inode and device of a file: while they stay, its content stays."""


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file: its path in the collection, where it is on disk, and its stamp when it was seen."""

    path: str
    source: Path
    stamp: Stamp

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.stamp[0]


@dataclass(frozen=True, slots=True)
class Listing:
    """All files, those of a directory together and before its directories, sorted by name; directories without any."""

    files: list[Found] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(found.size for found in self.files)


def list_sources(sources: Mapping[str, Path]) -> Listing:
    """The files at and below the given paths, each at its place in the collection; links are followed.

    Raises Invalid naming what cannot be read, is neither file nor directory, or is a loop of links.
    """
    listing = Listing()
    for path, source in sorted(sources.items()):
        _add(listing, path, source, ())
    return listing


def stamp_of(state: os.stat_result) -> Stamp:
    """The stamp of a file."""
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, state.st_dev


def _add(listing: Listing, path: str, source: Path, above: tuple[tuple[int, int], ...]) -> None:
    try:
        state = source.stat()
        if stat.S_ISDIR(state.st_mode):
            with os.scandir(source) as entries:
                names = sorted((_is_directory(entry), entry.name) for entry in entries)
    except OSError as error:
        raise Invalid(f"{_shown(source)}: cannot be read: {error.strerror}") from error
    if stat.S_ISREG(state.st_mode):
        listing.files.append(Found(path, source, stamp_of(state)))
    elif stat.S_ISDIR(state.st_mode):
        this = (state.st_dev, state.st_ino)
        if this in above:
            raise Invalid(f"{_shown(source)}: a symbolic link leads back to a directory above it; remove the link")
        if len(above) >= _DEEPEST:
            raise Invalid(f"{_shown(source)}: more than {_DEEPEST} directories deep; store it in parts")
        _add_entries(listing, path, source, names, (*above, this))
    else:
        raise Invalid(f"{_shown(source)}: {_kind(state.st_mode)} cannot be stored; leave it out")


def _add_entries(
    listing: Listing, path: str, source: Path, names: list[tuple[bool, str]], above: tuple[tuple[int, int], ...]
) -> None:
    if not names and path:
        listing.empty.append(path)
    # Files sort before directories.
    for _, name in names:
        _add(listing, f"{path}/{name}" if path else name, source / name, above)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # It is named when its turn comes.
        return False


def _shown(source: Path) -> str:
    """A path as part of one line."""
    text = str(source)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}...{text[-_LONGEST // 2 :]}"


def _kind(mode: int) -> str:
    return next((name for test, name in _KINDS if test(mode)), "neither a file nor a directory, it")
