"""Access to the files of an image archive or directory by name, without unpacking it.

The names are untrusted: links are followed inside the archive only, and nothing outside a directory
is read.
"""

from __future__ import annotations

import posixpath
import resource
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from lading.client.images.archive import Layer, sha256_of
from lading.core.errors import Full, Invalid, Malformed

# Bytes of a manifest or configuration; more is refused as damaged.
_MAX_DOCUMENT = 16 << 20
# Links that are followed for one name; a loop ends here.
_MAX_LINKS = 8
# Bytes copied at a time.
_CHUNK = 1 << 20
# First bytes of compressed files, and the program that uncompresses them.
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True, slots=True)
class Slice:
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


class TarMembers:
    """The files of an uncompressed tar. Raises Malformed for other files."""

    def __init__(self, path: Path, source: str) -> None:
        self.source = source
        self._path = path
        try:
            with tarfile.open(path, "r:") as tar:
                self._members = {
                    posixpath.normpath(member.name).lstrip("/"): member for member in tar
                }
        except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
            raise Malformed(f"{source}: neither an image nor a tar archive: {error}") from error

    def find(self, name: str) -> Slice | None:
        """Position of the file with this name; symbolic links are followed inside the archive."""
        name = posixpath.normpath(name)
        for _ in range(_MAX_LINKS):
            member = self._members.get(name)
            if member is not None and member.issparse():
                # Its data is stored without the holes, so it is not one range of the archive.
                raise Malformed(f"{self.source}: damaged image: {name[:100]!r} is a sparse file")
            if member is None or member.isreg():
                return Slice(self._path, member.offset_data, member.size) if member else None
            if member.issym():
                name = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
            elif member.islnk():
                name = posixpath.normpath(member.linkname)
            else:
                return None
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
    found = members.find(name)
    if found is None:
        raise Malformed(f"{members.source}: damaged image: {name} is missing")
    if found.size > limit:
        raise Malformed(f"{members.source}: damaged image: {name} has {found.size} bytes")
    with found.path.open("rb") as file:
        file.seek(found.offset)
        return file.read(found.size)


def read_layers(
    members: Members, names: Iterable[str], diff_ids: list[str], folder: Path
) -> tuple[Layer, ...]:
    """The layers with these names, uncompressed below `folder` if needed, each verified against its
    diff id.

    Raises Malformed when one is missing or differs, or the numbers of names and diff ids differ.
    """
    listed = list(names)
    if len(listed) != len(diff_ids):
        raise Malformed(
            f"{members.source}: damaged image: {len(listed)} layers, "
            f"but its configuration has {len(diff_ids)}"
        )
    layers = []
    for number, (name, diff_id) in enumerate(zip(listed, diff_ids, strict=True), 1):
        found = members.find(name)
        if found is None:
            raise Malformed(f"{members.source}: damaged image: layer {name} is missing")
        layer = plain_layer(found, folder / f"layer-{number}.tar", members.source)
        if layer.diff_id != diff_id:
            raise Malformed(
                f"{members.source}: damaged image: layer {number} is {layer.diff_id}, not {diff_id}"
            )
        layers.append(layer)
    return tuple(layers)


def plain_layer(found: Slice, target: Path, source: str) -> Layer:
    """The layer at `found`, uncompressed into the file `target` if it is compressed."""
    found = uncompressed(found, target, source)
    with found.path.open("rb") as file:
        file.seek(found.offset)
        diff_id = sha256_of(file, found.size)
    return Layer(path=found.path, offset=found.offset, size=found.size, diff_id=diff_id)


def uncompressed(found: Slice, target: Path, source: str) -> Slice:
    """`found` itself, or the file `target` with its uncompressed content. Raises Malformed,
    Invalid.
    """
    with found.path.open("rb") as file:
        file.seek(found.offset)
        head = file.read(8)
        program = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
        if program is None:
            return found
        file.seek(found.offset)
        _uncompress(program, file, found.size, target, source)
    return Slice(target, 0, target.stat().st_size)


def _uncompress(program: str, file: IO[bytes], size: int, target: Path, source: str) -> None:
    # In a separate process, because it runs in parallel, and zstd is in no supported version of
    # Python.
    try:
        # A tenth of the free space stays for others.
        room = shutil.disk_usage(target.parent).free * 9 // 10
        with target.open("wb") as out:
            process = subprocess.Popen(
                [program, "-dc"], stdin=subprocess.PIPE, stdout=out, stderr=subprocess.DEVNULL
            )
        # A small file may expand without limit. The process has no input yet, so the limit applies
        # from the first byte.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (room, room))
    except FileNotFoundError:
        raise Invalid(
            f"{source}: compressed with {program}, which this machine lacks; "
            f"run 'apt install {program}'"
        ) from None
    assert process.stdin is not None
    # BrokenPipeError: the program ended early; its exit code says why.
    with suppress(BrokenPipeError), process.stdin as pipe:
        while size > 0 and (data := file.read(min(_CHUNK, size))):
            pipe.write(data)
            size -= len(data)
    code = process.wait()
    # 128 + signal: the exit code if the program is a shell script.
    if code in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ) or target.stat().st_size >= room:
        raise Full(
            f"{source}: grows to more than the {room} bytes that are free in {target.parent}; "
            "is it meant to?"
        )
    if code != 0:
        raise Malformed(f"{source}: damaged: {program} cannot uncompress it")
