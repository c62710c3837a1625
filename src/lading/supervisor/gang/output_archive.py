"""The archive of the output directory of a rank, with links and holes.

The archive is made by `send` on the other machine. A file with holes is several members of one
name: each has the offset of its data and the size of the file in attributes of ours.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tarfile
from collections.abc import Iterator
from itertools import chain
from typing import IO

from lading.process.cancellation import Stop, never
from lading.process.confined import ConfinedTree, open_regular
from lading.supervisor.gang.gang_output import MOST_DEPTH, OFFSET, SIZE


def send(output: str, pipe: IO[bytes], *, stop: Stop = never, max_depth: int = MOST_DEPTH) -> None:
    """Write an archive of the output directory, with links and holes kept. Raises OSError, Stopped.

    Files that vanish meanwhile, and sockets, are left out.
    """
    first_names: dict[tuple[int, int], str] = {}
    with (
        ConfinedTree.open(output) as tree,
        tarfile.open(fileobj=pipe, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for folder, entry in tree.walk(max_depth=max_depth, stop=stop):
            # Removed since the directory was read.
            with contextlib.suppress(FileNotFoundError):
                _send_one(
                    archive, tree, f"{folder}/{entry.name}" if folder else entry.name, first_names
                )


def _send_one(
    archive: tarfile.TarFile, tree: ConfinedTree, path: str, first_names: dict[tuple[int, int], str]
) -> None:
    with tree.parent(path) as (folder, name):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        member = tarfile.TarInfo(path)
        member.mode, member.mtime = stat.S_IMODE(status.st_mode), status.st_mtime
        if stat.S_ISREG(status.st_mode):
            # Hard links: a second name refers to the first.
            first = first_names.get((status.st_dev, status.st_ino))
            if first is None:
                _send_file(archive, member, open_regular(name, folder))
                if status.st_nlink > 1:
                    first_names[status.st_dev, status.st_ino] = path
                return
            member.type, member.linkname = tarfile.LNKTYPE, first
        elif stat.S_ISLNK(status.st_mode):
            member.type, member.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=folder)
        elif stat.S_ISDIR(status.st_mode):
            member.type = tarfile.DIRTYPE
        else:
            # A socket or device: the receiver refuses the type and reports the name.
            member.type = tarfile.FIFOTYPE
        archive.addfile(member)


def _send_file(archive: tarfile.TarFile, member: tarfile.TarInfo, descriptor: int) -> None:
    with open(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        pieces = _pieces(descriptor, size)
        if (first := next(pieces, (0, 0))) == (0, size):
            member.size = size
            file.seek(0)
            archive.addfile(member, file)
            return
        for start, end in chain((first,), pieces):
            member.pax_headers = {OFFSET: str(start), SIZE: str(size)}
            member.size = end - start
            file.seek(start)
            archive.addfile(member, file)


def _pieces(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Start and end of each run of data of a file, in order (lseek(2), SEEK_DATA)."""
    end = 0
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            # ENXIO: only a hole follows.
            if error.errno != errno.ENXIO:
                raise
            return
        end = min(size, os.lseek(descriptor, start, os.SEEK_HOLE))
        if end <= start:
            return
        yield start, end
