"""Layers of images, written from entries.

A layer written from files of this machine (`write_layer`) has its entries sorted by path, with
numeric owners and whole seconds: the same files give the same bytes. A file with several names
becomes one file and hard links.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, cast

import msgspec

from lading.client.images.archive import Layer
from lading.client.images.steps import UNWATCHED, ImageSteps
from lading.core.errors import Invalid

_KINDS = {
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
}


class LayerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One path of a layer. `mode` has the type bits of stat; `content` is used if there is no
    `source`.
    """

    path: str
    mode: int
    source: Path | None = None
    content: bytes = b""
    target: str = ""
    owner: tuple[int, int] = (0, 0)
    modified: int = 0


class _HashingFile:
    """A file that hashes the bytes written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)


def write_layer(
    entries: Iterable[LayerEntry], target: Path, *, steps: ImageSteps = UNWATCHED
) -> Layer:
    """Write `entries` as a layer tar to the file `target`. Raises Invalid naming a file that cannot
    be read.
    """
    written: dict[tuple[int, int], str] = {}
    with target.open("wb") as file:
        hashing = _HashingFile(file)
        # "w|": a stream, without seeking back, so that the hash is complete at the end.
        with tarfile.open(
            fileobj=cast("IO[bytes]", hashing), mode="w|", format=tarfile.GNU_FORMAT
        ) as tar:
            ordered = sorted(entries, key=lambda entry: entry.path)
            for number, entry in enumerate(ordered):
                steps.at("writing file", number, len(ordered))
                _write(tar, entry, written, steps)
    return Layer(
        path=target, size=target.stat().st_size, diff_id=f"sha256:{hashing.digest.hexdigest()}"
    )


def _write(
    tar: tarfile.TarFile,
    entry: LayerEntry,
    written: dict[tuple[int, int], str],
    steps: ImageSteps,
) -> None:
    name = entry.path.lstrip("/")
    member = tarfile.TarInfo(name)
    member.type = _KINDS[stat.S_IFMT(entry.mode)]
    member.mode, member.mtime = stat.S_IMODE(entry.mode), entry.modified
    member.uid, member.gid = entry.owner
    member.linkname = entry.target
    if not member.isreg():
        tar.addfile(member)
        return
    if entry.source is None:
        member.size = len(entry.content)
        tar.addfile(member, io.BytesIO(entry.content))
        return
    try:
        with entry.source.open("rb") as file:
            status = os.fstat(file.fileno())
            key = (status.st_dev, status.st_ino)
            # Another name of a file that was written: a hard link.
            if status.st_nlink > 1 and key in written:
                member.type, member.linkname = tarfile.LNKTYPE, written[key]
                tar.addfile(member)
                return
            written[key] = name
            member.size = status.st_size
            tar.addfile(member, cast(io.BufferedReader, steps.reading(file)))
    except OSError as error:
        raise Invalid(
            f"{entry.source}: cannot be put into the image: {error.strerror or error}"
        ) from error
