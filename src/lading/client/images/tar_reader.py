"""Reads tar archives of strangers in bounded memory.

The tarfile module keeps every member that it has read, reads headers of any length and number into
memory, and recurses once for each header that precedes another. A compressed archive of some
kilobytes could take all memory of the machine or end the reader with RecursionError. So `TarReader`
reads one member after the other and drops it.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import Any, Final, Self

MOST_MEMBERS: Final = 5_000_000
"""Most members of an archive: some ten times as many as the largest images have."""
# Bytes of one header block, such as a long name.
_MOST_HEADER = 1 << 15
# Bytes of all headers before the data of one member: long names, attributes, the map of a sparse
# file.
_MOST_HEADERS = 1 << 20
# Headers before one member; usual archives have at most three.
_MOST_CHAINED = 16
_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_GLOBAL = (tarfile.XGLTYPE,)


class ArchiveRefused(tarfile.TarError):
    """The archive has a form that no ordinary program writes."""


class _Budget:
    """Reads the headers of one member from the archive's file, at most `_MOST_HEADERS` bytes."""

    def __init__(self, file: Any) -> None:
        self._file, self._left, self._chained = file, _MOST_HEADERS, 0

    def count_header(self) -> None:
        """Count one more header before the member: tarfile recurses for each."""
        self._chained += 1
        if self._chained > _MOST_CHAINED:
            raise ArchiveRefused(f"more than {_MOST_CHAINED} headers stand before a member")

    def read(self, size: int) -> bytes:
        self._left -= size
        if self._left < 0:
            raise ArchiveRefused(f"the headers of a member have more than {_MOST_HEADERS} bytes")
        data: bytes = self._file.read(size)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class TarMember(tarfile.TarInfo):
    """A member whose headers have limited sizes."""

    def _proc_member(self, archive: TarReader) -> Self:
        if self.type not in _HEADERS and self.type != tarfile.GNUTYPE_SPARSE:
            plain: Self = super()._proc_member(archive)  # type: ignore[misc]
            return plain
        if self.type in _HEADERS and not 0 <= self.size <= _MOST_HEADER:
            raise ArchiveRefused(f"a header of {self.size} bytes")
        if self.type in _GLOBAL:
            archive.count_global(self.size)
        file = archive.fileobj
        budget = archive.fileobj = file if isinstance(file, _Budget) else _Budget(file)
        budget.count_header()
        try:
            found: Self = super()._proc_member(archive)  # type: ignore[misc]
        finally:
            # The data of the member is read from the file itself: it has no limit here.
            archive.fileobj = file
        return found


class TarReader(tarfile.TarFile):
    """An archive for reading. Open it with the class method `open`, and iterate with `members`."""

    tarinfo = TarMember
    fileobj: Any
    _globals = 0

    def count_global(self, size: int) -> None:
        """Count headers that tarfile keeps for all later members. Raises Refused when they are too
        many.
        """
        self._globals += size
        if self._globals > _MOST_HEADERS:
            raise ArchiveRefused(
                f"its headers for all members have more than {_MOST_HEADERS} bytes"
            )


def members(archive: tarfile.TarFile, *, most: int = MOST_MEMBERS) -> Iterator[tarfile.TarInfo]:
    """The members in turn; each is dropped when the next one is requested.

    Raises tarfile.TarError (`ArchiveRefused` among others), ValueError, OSError.
    """
    for number in range(most + 1):
        member = archive.next()
        if member is None:
            return
        if number == most:
            raise ArchiveRefused(f"it has more than {most} members")
        # tarfile keeps all members, and nothing here needs an earlier one.
        archive.members.clear()  # type: ignore[attr-defined]
        yield member
