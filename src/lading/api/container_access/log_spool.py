"""The log that a running container has written so far, in one directory for each container.

A supervisor appends at the offset that it knows. An append that overlaps the file is cut, one that
would leave a gap is refused, so that a repeated or reordered call does no harm. When the final log
is saved, the spool is deleted; the spool of a container whose log was never saved is kept for a
while.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from lading.client.caches.disk_space import lacks_room, read_disk
from lading.core.containers.disk_space import Amount, reserve
from lading.core.errors import Conflict, Full, Invalid, TooLarge, Unavailable
from lading.process import tree_removal

# Names of log files; no path can be made of them.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Bytes of one live log; the final log, which the supervisor saves, is not limited by this.
MAX_FILE = 1 << 30
# The part of the reserve that records of ordinary users leave; blocks leave half of it.
_FOR_OTHERS = 4
# A change of a record is stored as the record, its version, and the old and the new one in the log
# of changes; each of them in the database and in the database's own log.
_COPIES = 16


class Spool:
    """Live logs below one directory. They leave the reserve `kept` of its disk free."""

    def __init__(self, directory: Path, *, disk_reserve: Amount) -> None:
        self._directory, self._disk_reserve = directory, disk_reserve
        self._current = set[str]()

    def append(self, container_uuid: str, name: str, data: bytes, *, offset: int) -> int:
        """Write `data` at `offset`; the new length of the file.

        Raises Invalid for a bad name, Conflict when bytes before `offset` are missing, TooLarge;
        Full or Unavailable when the disk fails.
        """
        path = self._file(container_uuid, name)
        try:
            length = self._append(path, data, offset)
        except OSError as error:
            kind = Full if error.errno in (errno.ENOSPC, errno.EDQUOT) else Unavailable
            raise kind(f"live/{name}: cannot be written: {error.strerror}") from error
        self._current.add(container_uuid)
        return length

    def check_records(self, need: int) -> None:
        """Check that a write of `need` bytes by an ordinary user leaves a quarter of the reserve of
        the disk: what is left is for administrators, dispatchers and supervisors. Raises Full.
        """
        nearest = next(
            directory
            for directory in (self._directory, *self._directory.parents)
            if directory.is_dir()
        )
        least_free = reserve(read_disk(nearest).total, self._disk_reserve).size // _FOR_OTHERS
        if why := lacks_room(nearest, Amount(least_free, 0), need=_COPIES * need):
            raise Full(f"nothing more can be stored now: {why}")

    def is_current(self, container_uuid: str) -> bool:
        """Whether the supervisor posts to this server: it has done so since the server was started
        and since `mark_left`.
        """
        return container_uuid in self._current

    def mark_left(self, container_uuid: str) -> None:
        """Note that the supervisor may post to another server from now on."""
        self._current.discard(container_uuid)

    def _append(self, path: Path, data: bytes, offset: int) -> int:
        name = path.name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        why = lacks_room(path.parent, self._disk_reserve, need=len(data))
        if why:
            raise Full(f"live/{name}: {why}")
        with path.open("ab") as file:
            length = file.tell()
            if offset > length:
                raise Conflict(
                    f"live/{name}: offset {offset} leaves a gap: {length} bytes are there"
                )
            if offset + len(data) > MAX_FILE:
                raise TooLarge(f"live/{name}: a live log may have {MAX_FILE} bytes")
            file.write(data[length - offset :])
            return max(length, offset + len(data))

    def names(self, container_uuid: str) -> list[str]:
        """The files of a container."""
        directory = self._directory / container_uuid
        return sorted(file.name for file in directory.iterdir()) if directory.is_dir() else []

    def open(self, container_uuid: str, name: str) -> BinaryIO | None:
        """A file of a container, opened for reading; None if it does not exist."""
        if not _NAME.fullmatch(name):
            return None
        try:
            return (self._directory / container_uuid / name).open("rb")
        except OSError:
            return None

    def remove(self, container_uuid: str) -> None:
        """Delete the container's files."""
        self._current.discard(container_uuid)
        # Most containers have no live log here.
        if not os.path.lexists(f"{self._directory}/{container_uuid}"):
            return
        # The sweep removes it later.
        with suppress(OSError):
            tree_removal.remove(self._directory / container_uuid)

    def expire(self, before: float) -> int:
        """Delete the files of containers that were last written before a time (seconds since 1970);
        the number of containers.
        """
        old = [
            directory
            for directory in self._directory.glob("*/")
            if directory.stat().st_mtime < before
        ]
        for directory in old:
            self._current.discard(directory.name)
            # The next sweep tries again.
            with suppress(OSError):
                tree_removal.remove(directory)
        return len(old)

    def _file(self, container_uuid: str, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise Invalid(
                f"live/{name}: not a file name: letters, digits, dot, dash and underscore are"
            )
        return self._directory / container_uuid / name
