"""The plan of a container's output: the entries to save, and remarks about the other ones.

`walk` makes it from the entries of the container's file system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from lading.core.containers.mounting.mount_steps import CollectionPath, HostPath, Source
from lading.core.data.globs import matches_nothing
from lading.core.remarks import RemarkList, Remarks
from lading.core.values import printable

_ENTRIES = ("entry", "entries")
_PATTERNS = ("pattern", "patterns")
_SPECIAL = ("fifo, socket or device", "fifos, sockets or devices")


class FileEntry(msgspec.Struct, frozen=True):
    """A regular file of so many bytes, holes included."""

    size: int = 0


class DirectoryEntry(msgspec.Struct, frozen=True):
    """A directory and its names.

    `files` are certainly regular files and need not be examined; `sizes` has the bytes of the
    measured ones.
    """

    names: tuple[str, ...]
    files: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = msgspec.field(default_factory=dict)


class LinkEntry(msgspec.Struct, frozen=True):
    """A symbolic link and its text."""

    target: str


class SpecialEntry(msgspec.Struct, frozen=True):
    """A fifo, socket or device."""


class UnreadableEntry(msgspec.Struct, frozen=True):
    """A file or directory whose mode keeps the supervisor from reading it."""


Entry = FileEntry | DirectoryEntry | LinkEntry | SpecialEntry | UnreadableEntry
Look = Callable[[Source], Entry | None]
"""Returns the entry at a place, None when it is missing."""


class CopyFile(msgspec.Struct, frozen=True):
    """Save the file `source`, which is in no collection, as `name` in the output."""

    name: str
    source: Source


class CopyFiles(msgspec.Struct, frozen=True):
    """Save the regular files `names` of a directory of the host in the directory `name` of the
    output ("" is its top).

    One item for a whole directory: there may be very many files.
    """

    name: str
    source: HostPath
    names: tuple[str, ...]


class Refer(msgspec.Struct, frozen=True):
    """Save a file or directory of a collection as `name` in the output ("" is the whole output), by
    reference.
    """

    name: str
    source: CollectionPath


class EmptyFile(msgspec.Struct, frozen=True):
    """Save an empty file as `name`, so that its directory exists in the output."""

    name: str


Item = CopyFile | CopyFiles | Refer | EmptyFile


class OutputPlan(msgspec.Struct, frozen=True):
    """The entries to save, each name once, and remarks about the other ones.

    `omitted` are entries that belong to the output and cannot be saved, `renamed` those that are
    saved under a spelled name, `special` the fifos, sockets and devices, which have no content, and
    `unusable` the patterns that can match nothing.
    """

    items: tuple[Item, ...] = ()
    omitted: Remarks = Remarks()
    renamed: Remarks = Remarks()
    special: Remarks = Remarks()
    unusable: Remarks = Remarks()

    @property
    def warning(self) -> str:
        """One sentence with the numbers of omitted, renamed and special entries, and of unusable
        patterns; "" without any.
        """
        numbers = [
            f"{_counted(remarks.count, *noun)} {verb}"
            for remarks, noun, verb in (
                (self.omitted, _ENTRIES, "not saved"),
                (self.renamed, _ENTRIES, "saved under another name"),
                (self.special, _SPECIAL, "left out"),
                (self.unusable, _PATTERNS, "without effect"),
            )
            if remarks.count
        ]
        if not numbers:
            return ""
        return f"output: {', '.join(numbers)}, such as: {self._lines()[0]}"

    @property
    def warning_detail(self) -> str:
        """The lines of all omitted, renamed and special entries, and of unusable patterns."""
        return "\n".join(self._lines())

    def _lines(self) -> tuple[str, ...]:
        remarks = (self.omitted, self.renamed, self.special, self.unusable)
        return tuple(line for remark in remarks for line in remark.lines())


def unusable_patterns(patterns: Iterable[str]) -> Remarks:
    """Remarks about the patterns that can match nothing. The API takes them, as Arvados does."""
    remarks = RemarkList()
    for pattern in patterns:
        if matches_nothing(pattern):
            remarks.add(
                f"the pattern {printable(pattern)} matches nothing: patterns are paths below the "
                "output path, without a slash at either end, . and .."
            )
    return remarks.remarks()


def _counted(count: int, singular: str, plural: str) -> str:
    return f"1 {singular}" if count == 1 else f"{count:,} {plural}"
