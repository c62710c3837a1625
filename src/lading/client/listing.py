"""Lists the files below paths in manifest order, for uploads of a million files.

The order is: files of a directory by name, then its subdirectories. A long listing is kept in a
temporary file and read in order, a thousand files at a time, so that its memory does not depend on
the number of files. Only the names of one directory are sorted in memory.
"""

from __future__ import annotations

import os
import stat
import tempfile
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple, Self

import msgspec

from lading.core.data import filetree
from lading.core.data.packing import PackedDirectory
from lading.core.errors import Full, Invalid

# Nested directories; each level is one level of recursion.
_DEEPEST = 200
# Characters of a path in a message; a longer one is cut in the middle.
_LONGEST = 300
# Files per record of the listing.
_AT_ONCE = 1000
# Bytes of the length before each record.
_HEAD = 4
# Bytes of records that are kept in memory; more are written to a file.
_SHORT = 1 << 16
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


Stamp = tuple[int, int, int, int, int]
"""Size, modification time, change time, inode and device of a file: equal values mean equal
content.
"""


class ListedFile(NamedTuple):
    """A regular file: its path on disk, and its stamp when it was listed."""

    source: str
    stamp: Stamp

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.stamp[0]


class _Part(msgspec.Struct, array_like=True):
    """Some files of one directory; `source` is the directory on disk, or `sources` has the path of
    each file.
    """

    path: str
    source: bytes
    sources: list[bytes]
    names: list[str]
    stamps: list[Stamp]
    first: int
    begin: int
    end: int

    def found(self, index: int) -> ListedFile:
        """The file at an index."""
        if self.sources:
            return ListedFile(os.fsdecode(self.sources[index]), self.stamps[index])
        return ListedFile(f"{os.fsdecode(self.source)}/{self.names[index]}", self.stamps[index])


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Part).decode


class Listing:
    """The listed files, numbered in order: `count` files with `size` bytes together. The caller
    closes it.
    """

    def __init__(self) -> None:
        self.count = self.size = 0
        # The records, until they are too many for memory.
        self._few = bytearray()
        self._file: IO[bytes] | None = None
        # Number of the first file of each directory all of whose files are empty, ascending.
        self._hollow = array("q")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the listing. Idempotent."""
        if self._file is not None:
            self._file.close()

    def folders(self) -> Iterator[PackedDirectory]:
        """All files, and directories without files, in the form that `core.data.packing` needs."""
        return (folder for _, folder in self.placed())

    def placed(self) -> Iterator[tuple[int, PackedDirectory]]:
        """Variant of `folders` with the offset of each folder in the listing, for `found`."""
        hollow = 0
        for place, part in self._parts(0):
            while hollow < len(self._hollow) and self._hollow[hollow] < part.begin:
                hollow += 1
            is_hollow = hollow < len(self._hollow) and self._hollow[hollow] == part.begin
            yield (
                place,
                PackedDirectory(
                    path=part.path,
                    names=part.names,
                    sizes=[stamp[0] for stamp in part.stamps],
                    first=part.first,
                    begin=part.begin,
                    end=part.end,
                    has_data=not is_hollow,
                ),
            )

    def found(self, place: int, first: int, end: int) -> Iterator[ListedFile]:
        """The files with the numbers from `first` to `end` - 1; the first of them is in the record
        at `place`.
        """
        for _, part in self._parts(place):
            for index in range(max(0, first - part.first), min(len(part.names), end - part.first)):
                yield part.found(index)
            if part.first + len(part.names) >= end:
                return

    def _parts(self, place: int) -> Iterator[tuple[int, _Part]]:
        while head := self._read(place, _HEAD):
            size = int.from_bytes(head)
            yield place, _decode(self._read(place + _HEAD, size))
            place += _HEAD + size

    def _read(self, place: int, size: int) -> bytes:
        if self._file is None:
            return bytes(self._few[place : place + size])
        return os.pread(self._file.fileno(), size, place)

    def add(self, part: _Part) -> None:
        """Append a record. Raises Full."""
        text = _encode(part)
        record = len(text).to_bytes(_HEAD) + text
        try:
            if self._file is not None:
                self._file.write(record)
            else:
                self._few += record
                if len(self._few) > _SHORT:
                    # `close` closes it.
                    self._file = tempfile.TemporaryFile(prefix="lading-put-")  # noqa: SIM115
                    self._file.write(self._few)
                    self._few.clear()
        except OSError as error:
            raise _no_room(error) from error
        self.count += len(part.names)
        self.size += sum(stamp[0] for stamp in part.stamps)

    def finish_directory(self, begin: int, before: int) -> None:
        """Note that all files of a directory were added, from number `begin` on, when the size was
        `before`.
        """
        if self.size == before and self.count > begin:
            self._hollow.append(begin)

    def flush(self) -> None:
        """Write the buffered records to the file. Raises Full."""
        try:
            if self._file is not None:
                self._file.flush()
        except OSError as error:
            raise _no_room(error) from error


class _Place(msgspec.Struct):
    """A directory of the collection: its source on disk, or the named places below it."""

    source: Path | None = None
    below: dict[str, _Place] = msgspec.field(default_factory=dict)


def list_sources(sources: Mapping[str, Path], *, at_once: int = _AT_ONCE) -> Listing:
    """The files at and below the given paths, each at its place in the collection; links are
    followed. A directory of more than `at_once` files is listed in parts. The caller closes the
    listing.

    Raises Invalid naming a source that cannot be read or stored, is neither file nor directory, or
    is a loop of links; Full.
    """
    listing = Listing()
    try:
        _List(listing, at_once).add_root(_places(sources))
        listing.flush()
    except BaseException:
        listing.close()
        raise
    return listing


def stamp_of(state: os.stat_result) -> Stamp:
    """The stamp of a file."""
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, state.st_dev


def _places(sources: Mapping[str, Path]) -> _Place:
    root = _Place()
    for path, source in sources.items():
        here = root
        for element in path.split("/") if path else ():
            here = here.below.setdefault(element, _Place())
        here.source = source
    return root


class _List:
    """Adds files and directories to a listing."""

    def __init__(self, listing: Listing, at_once: int) -> None:
        self._listing, self._at_once = listing, at_once

    def add_root(self, place: _Place) -> None:
        if (
            place.source is not None
            and not place.below
            and not stat.S_ISDIR(_look(place.source).st_mode)
        ):
            # Raises Invalid: a single file cannot be the root of a collection.
            filetree.check_path("")
        self._add_place("", place)

    def _add_place(self, path: str, place: _Place) -> None:
        if place.source is not None:
            if place.below:
                raise Invalid(
                    f"{path or '.'}: another path is to be stored inside this one; "
                    "store them one at a time"
                )
            self._add_directory(path, place.source, ())
            return
        files, folders = dict[str, Path](), dict[str, _Place]()
        for name, one in sorted(place.below.items()):
            if (
                one.source is not None
                and not one.below
                and not stat.S_ISDIR(_look(one.source).st_mode)
            ):
                files[name] = one.source
            else:
                folders[name] = one
        filetree.check_names([*files, *folders])
        self._add_files(path, [str(source) for source in files.values()], list(files), named=True)
        for name, one in folders.items():
            self._add_place(f"{path}/{name}" if path else name, one)

    def _add_directory(self, path: str, source: Path, above: tuple[tuple[int, int], ...]) -> None:
        try:
            state = source.stat()
            with os.scandir(source) as entries:
                files, folders = list[str](), list[str]()
                for entry in entries:
                    (folders if _is_directory(entry) else files).append(entry.name)
        except NotADirectoryError:
            raise Invalid(
                f"{_shown(source)}: was a directory a moment ago; put it again when it is at rest"
            ) from None
        except OSError as error:
            raise Invalid(f"{_shown(source)}: cannot be read: {error.strerror}") from error
        # Links are followed, so a directory may lead back to one above it.
        this = (state.st_dev, state.st_ino)
        if this in above:
            raise Invalid(
                f"{_shown(source)}: a symbolic link leads back to a directory above it; "
                "remove the link"
            )
        if len(above) >= _DEEPEST:
            raise Invalid(
                f"{_shown(source)}: more than {_DEEPEST} directories deep; store it in parts"
            )
        files.sort()
        folders.sort()
        if files or (path and not folders):
            self._add_files(path, [str(source)], files, named=False)
        # Freed before the recursion: only one directory's names are in memory at each level that
        # has files.
        del files
        for name in folders:
            below = f"{path}/{name}" if path else name
            filetree.check_path(below)
            self._add_directory(below, source / name, (*above, this))

    def _add_files(self, path: str, sources: list[str], names: list[str], *, named: bool) -> None:
        """Add the files of a directory on disk, or the `named` files of a directory of the
        collection.
        """
        listing = self._listing
        if not names and named:
            return
        begin, before = listing.count, listing.size
        # `or 1`: an empty directory gets one record without files.
        for start in range(0, len(names) or 1, self._at_once):
            some = names[start : start + self._at_once]
            paths = (
                sources[start : start + self._at_once]
                if named
                else [f"{sources[0]}/{name}" for name in some]
            )
            stamps = [_stamp(one) for one in paths]
            filetree.check_names(some)
            listing.add(
                _Part(
                    path=path,
                    source=b"" if named else os.fsencode(sources[0]),
                    sources=[os.fsencode(one) for one in paths] if named else [],
                    names=some,
                    stamps=stamps,
                    first=begin + start,
                    begin=begin,
                    end=begin + len(names),
                )
            )
        listing.finish_directory(begin, before)


def _stamp(source: str) -> Stamp:
    """The stamp of a regular file. Raises Invalid."""
    state = _look(source)
    if stat.S_ISREG(state.st_mode):
        return stamp_of(state)
    raise Invalid(f"{_shown(source)}: {_kind(state.st_mode)} cannot be stored; leave it out")


def _look(source: Path | str) -> os.stat_result:
    try:
        return os.stat(source)  # noqa: PTH116 - a Path for each of a million files takes longer
    except OSError as error:
        raise Invalid(f"{_shown(source)}: cannot be read: {error.strerror}") from error


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A dangling link, for example: reported when it is opened as a file.
        return False


def _no_room(error: OSError) -> Full:
    where = tempfile.gettempdir()
    return Full(
        f"{where}: the list of the files cannot be written: {error.strerror}; "
        "set TMPDIR to another directory"
    )


def _shown(source: Path | str) -> str:
    """A path as part of one line."""
    text = str(source)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}...{text[-_LONGEST // 2 :]}"


def _kind(mode: int) -> str:
    return next((name for test, name in _KINDS if test(mode)), "neither a file nor a directory, it")
