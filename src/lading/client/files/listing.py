"""Lists the files below paths in manifest order, for uploads of a million files.

The order is: files of a directory by name, then its subdirectories. Only the names of one directory
are sorted in memory; the list itself may be on disk (`listed_files`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import structs

from lading.client.files.listed_files import ListedPart, Listing, Stamp, stamp_of
from lading.core.data import filetree
from lading.core.data.manifest import fault_of
from lading.core.data.raw_names import are_plain, spell
from lading.core.errors import Invalid
from lading.core.quantities import show_bytes
from lading.core.remarks import RemarkList
from lading.process.portable import AS_BYTES, NO_INHERIT, NO_WAIT

# Nested directories; each level is one level of recursion.
_DEEPEST = 200
# Characters of a path in a message; a longer one is cut in the middle.
_LONGEST = 300
# Files per record of the listing.
_AT_ONCE = 1000
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


class LinkPolicy(StrEnum):
    """Treatment of symbolic links, and of entries that cannot be stored: links that lead nowhere or
    in a circle, named pipes, sockets and devices, and what a manifest cannot hold.
    """

    FOLLOW = "follow"
    """Links are stored as what they lead to. Entries that cannot be stored are refused."""
    SKIP = "skip"
    """As FOLLOW, but entries that cannot be stored are left out."""
    FAIL = "fail"
    """As FOLLOW, but every link is refused."""


class _Place(msgspec.Struct):
    """A directory of the collection: its source on disk, or the named places below it."""

    source: Path | None = None
    below: dict[str, _Place] = msgspec.field(default_factory=dict)


def list_sources(
    sources: Mapping[str, Path],
    *,
    links: LinkPolicy = LinkPolicy.FOLLOW,
    at_once: int = _AT_ONCE,
) -> Listing:
    """The files at and below the given paths, each at its place in the collection. A directory of
    more than `at_once` files is listed in parts. The caller closes the listing.

    Raises Invalid naming the sources that cannot be read or stored; Full.
    """
    listing = Listing()
    try:
        _List(listing, at_once, links).run(_places(sources))
        listing.flush()
    except BaseException:
        listing.close()
        raise
    return listing


def _places(sources: Mapping[str, Path]) -> _Place:
    root = _Place()
    for path, source in sources.items():
        here = root
        for element in path.split("/") if path else ():
            here = here.below.setdefault(element, _Place())
        here.source = source
    return root


class _Unstorable(Invalid):
    """An entry that cannot be stored, and can be left out. `remark` is the fault without advice."""

    def __init__(self, source: Path | str, fault: str, advice: str = "") -> None:
        self.remark = f"{_shown(source)}: {fault}"
        super().__init__(f"{self.remark}; {advice}" if advice else self.remark)


class _List:
    """Adds files and directories to a listing."""

    def __init__(self, listing: Listing, at_once: int, links: LinkPolicy) -> None:
        self._listing, self._at_once, self._links = listing, at_once, links
        self._refused, self._omitted, self._renamed = RemarkList(), RemarkList(), RemarkList()
        # The directories that contain a source: a link to one of them leads back to the source.
        self._outside: frozenset[tuple[int, int]] = frozenset()
        # What follows the message about the only entry that is refused.
        self._way_out = ""

    def run(self, root: _Place) -> None:
        """Add everything. Raises Invalid naming all entries that are refused."""
        self._add_root(root)
        refused = self._refused.remarks()
        if refused.count == 1:
            raise Invalid(f"{refused.sentences[0]}{self._way_out}")
        if refused.count:
            raise Invalid(
                f"{refused.count} entries cannot be stored; take them out, or leave out"
                f" those that nobody could store (--links skip): {'; '.join(refused.lines())}"
            )
        self._listing.omitted = self._omitted.remarks()
        self._listing.renamed = self._renamed.remarks()

    def _note(self, fault: Invalid) -> None:
        """Leave an entry out, or refuse it."""
        if not isinstance(fault, _Unstorable):
            self._refused.add(fault.message)
        elif self._links is LinkPolicy.SKIP:
            self._omitted.add(fault.remark)
        else:
            self._refused.add(fault.remark)
            advice = fault.message.removeprefix(fault.remark)
            self._way_out = f"{advice} (--links skip leaves it out)"

    def _is_refused_link(self, source: Path | str) -> bool:
        if self._links is not LinkPolicy.FAIL or not os.path.islink(source):  # noqa: PTH114
            return False
        self._refused.add(f"{_shown(source)}: is a symbolic link")
        return True

    def _add_root(self, root: _Place) -> None:
        if (
            root.source is not None
            and not root.below
            and not stat.S_ISDIR(_look(root.source).st_mode)
        ):
            # Raises Invalid: a single file cannot be the root of a collection.
            filetree.check_path("")
        self._add_place("", root)

    def _add_place(self, path: str, entry: _Place) -> None:
        if entry.source is not None:
            if entry.below:
                raise Invalid(
                    f"{path or '.'}: another path is to be stored inside this one; "
                    "store them one at a time"
                )
            self._outside = _containing(entry.source)
            self._add_directory(path, entry.source, ())
            return
        files, folders = dict[str, Path](), dict[str, _Place]()
        for name, child in sorted(entry.below.items()):
            if (
                child.source is not None
                and not child.below
                and not stat.S_ISDIR(_look(child.source).st_mode)
            ):
                files[name] = child.source
            else:
                folders[name] = child
        filetree.check_names([*files, *folders])
        self._add_named(path, files)
        for name, child in folders.items():
            self._add_place(f"{path}/{name}" if path else name, child)

    def _add_directory(self, path: str, source: Path, above: tuple[tuple[int, int], ...]) -> None:
        try:
            this, files, folders = self._read_directory(path, source, above)
        except Invalid as fault:
            self._note(fault)
            return
        files.sort()
        folders.sort()
        if files or (path and not folders):
            self._add_files(path, source, files)
        # Freed before the recursion: only one directory's names are in memory at each level that
        # has files.
        del files
        for name in folders:
            below = f"{path}/{self._stored(source, name)}" if path else self._stored(source, name)
            self._add_directory(below, source / name, (*above, this))

    def _read_directory(
        self, path: str, source: Path, above: tuple[tuple[int, int], ...]
    ) -> tuple[tuple[int, int], list[str], list[str]]:
        """Device and inode of a directory, and the names of its files and directories. Raises
        Invalid.
        """
        if fault := fault_of(path) if path else "":
            raise _Unstorable(source, fault)
        try:
            state = source.stat()
            with os.scandir(source) as entries:
                files, folders = list[str](), list[str]()
                for entry in entries:
                    if not self._is_refused_link(entry.path):
                        (folders if _is_directory(entry) else files).append(entry.name)
        except NotADirectoryError:
            raise Invalid(
                f"{_shown(source)}: was a directory a moment ago; put it again when it is at rest"
            ) from None
        except OSError as error:
            raise Invalid(f"{_shown(source)}: cannot be read: {error.strerror}") from error
        # Links are followed, so a directory may lead back to one above it.
        this = (state.st_dev, state.st_ino)
        if this in above or this in self._outside:
            raise _Unstorable(
                source, "a symbolic link leads back to a directory above it", "remove the link"
            )
        if len(above) >= _DEEPEST:
            raise _Unstorable(source, f"more than {_DEEPEST} directories deep", "store it in parts")
        return this, files, folders

    def _stored(self, source: Path, name: str) -> str:
        """The name under which an entry of a directory on disk is stored."""
        stored = spell(name, lambda sibling: os.path.lexists(source / sibling))
        if stored != name:
            self._renamed.add(f"{_shown(source / name)}: is stored as {_shown(stored)}")
        return stored

    def _add_files(self, path: str, source: Path, names: list[str]) -> None:
        """Add the files of a directory on disk."""
        listing, folder = self._listing, str(source)
        if self._links is LinkPolicy.SKIP:
            # Before the first part is added, as each part has the number of all files. An entry
            # that is refused needs no such care: the listing is not used then.
            names = [name for name in names if self._stamp(f"{folder}/{name}") is not None]
        begin, before = listing.count, listing.size
        # `or 1`: an empty directory gets one record without files.
        for start in range(0, len(names) or 1, self._at_once):
            some = names[start : start + self._at_once]
            stored = some if are_plain(some) else [self._stored(source, name) for name in some]
            # By the path of each file where a name on disk differs from the stored one.
            paths = [f"{folder}/{name}" for name in some]
            part = self._part(path, paths, stored, end=begin + len(names), begin=begin)
            if stored is some:
                part = structs.replace(part, source=os.fsencode(folder), sources=[])
            listing.add(part)
        listing.finish_directory(begin, before)

    def _add_named(self, path: str, files: Mapping[str, Path]) -> None:
        """Add files of a directory of the collection, each with its own path on disk."""
        # In front of the part, which has the number of its files.
        files = {
            name: source
            for name, source in files.items()
            if self._links is not LinkPolicy.SKIP or self._stamp(str(source)) is not None
        }
        if not files:
            return
        listing = self._listing
        begin, before = listing.count, listing.size
        paths = [str(source) for source in files.values()]
        listing.add(self._part(path, paths, [*files], end=begin + len(files), begin=begin))
        listing.finish_directory(begin, before)

    def _part(
        self, path: str, paths: list[str], names: list[str], *, begin: int, end: int
    ) -> ListedPart:
        """A record of files with these paths on disk, without refused files."""
        stamps = [self._stamp(file_path) for file_path in paths]
        filetree.check_names(names)
        return ListedPart(
            path=path,
            source=b"",
            sources=[os.fsencode(file_path) for file_path in paths],
            names=names,
            stamps=[stamp for stamp in stamps if stamp is not None],
            first=self._listing.count,
            begin=begin,
            end=end,
        )

    def _stamp(self, source: str) -> Stamp | None:
        """The stamp of a file; None if it is left out or refused."""
        try:
            return _stamp(source)
        except Invalid as fault:
            self._note(fault)
            return None


def _stamp(source: str) -> Stamp:
    """The stamp of a regular file. Raises Invalid."""
    state = _look(source)
    if not stat.S_ISREG(state.st_mode):
        raise _Unstorable(source, f"is {_kind(state.st_mode)}", "leave it out")
    if state.st_size == 0 and _has_content(source):
        raise _Unstorable(
            source, "says that it is empty and has content, as files of /proc", "store a copy of it"
        )
    return stamp_of(state)


def _has_content(source: str) -> bool:
    try:
        # O_NONBLOCK: the file may have become a pipe.
        descriptor = os.open(source, os.O_RDONLY | NO_WAIT | NO_INHERIT | AS_BYTES)
    except OSError:
        # An empty file is not read.
        return False
    try:
        return bool(os.read(descriptor, 1))
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _look(source: Path | str) -> os.stat_result:
    try:
        return os.stat(source)  # noqa: PTH116 - a Path for each of a million files takes longer
    except OSError as error:
        if fault := _link_fault(source, error.errno):
            raise _Unstorable(source, fault, "remove the link") from error
        raise Invalid(f"{_shown(source)}: cannot be read: {error.strerror}") from error


def _link_fault(source: Path | str, code: int | None) -> str:
    """The fault of a link that leads nowhere or in a circle; "" if that was not the error."""
    if code not in (errno.ENOENT, errno.ELOOP):
        return ""
    try:
        target = os.readlink(source)  # noqa: PTH115
    except OSError:
        # It is no link, or is gone.
        return ""
    if code == errno.ELOOP:
        return f"is a link to {_shown(target)} that goes in a circle"
    return f"is a link to {_shown(target)}, which does not exist"


def _containing(source: Path) -> frozenset[tuple[int, int]]:
    """Device and inode of each directory above a source."""
    states = (directory.stat() for directory in source.resolve().parents)
    return frozenset((state.st_dev, state.st_ino) for state in states)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A dangling link, for example: reported when it is opened as a file.
        return False


def _shown(source: Path | str) -> str:
    """A path as part of one line."""
    text = str(source)
    text = text if text.isprintable() else show_bytes(repr(text))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}...{text[-_LONGEST // 2 :]}"


def _kind(mode: int) -> str:
    return next((name for test, name in _KINDS if test(mode)), "neither a file nor a directory")
