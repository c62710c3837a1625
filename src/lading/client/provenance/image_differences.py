"""Differences between two images: their layers, and the packages installed in them."""

from __future__ import annotations

import posixpath
import re
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import msgspec

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.files.downloads import download_file
from lading.client.images.archive import read_config
from lading.client.images.archive_members import TarMembers, read_document
from lading.client.images.sources import DockerManifestEntry
from lading.core.data import filetree
from lading.core.errors import Malformed
from lading.core.images import UNREADABLE

LARGEST: Final = 1 << 30
"""Bytes of an archive that is read for a comparison."""
_MOST_MEMBERS: Final = 1_000_000
_MOST_LIST: Final = 64 << 20
"""Bytes of a list of packages."""
_DEBIAN: Final = re.compile(r"var/lib/dpkg/(status|status\.d/[^/]+)")
_ALPINE: Final = "lib/apk/db/installed"
_PYTHON: Final = re.compile(r"(?:.*/)?([A-Za-z0-9._]+)-([^-/]+)\.dist-info/METADATA")
_DPKG: Final = ("Package: ", "Version: ")
_APK: Final = ("P:", "V:")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageContents:
    """The content hashes of the layers, lowest first, and versions by the names of packages."""

    layers: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDifference:
    """Layers of both, the number of the lowest ones that are shared, and the packages that differ:
    name, version before and after, "" for none.
    """

    before: int
    after: int
    shared: int
    packages: tuple[tuple[str, str, str], ...]


async def compare_images(
    api: ApiClient, blocks: BlockClient, before: str, after: str
) -> ImageDifference:
    """The difference of two images by their portable data hashes. Raises Malformed for content
    that is no image or is too large, and the errors of the API and the store.
    """
    old, new = [await _read(api, blocks, pdh) for pdh in (before, after)]
    shared = 0
    for ours, theirs in zip(old.layers, new.layers, strict=False):
        if ours != theirs:
            break
        shared += 1
    names = sorted(old.packages.keys() | new.packages.keys())
    rows = ((name, old.packages.get(name, ""), new.packages.get(name, "")) for name in names)
    return ImageDifference(
        before=len(old.layers),
        after=len(new.layers),
        shared=shared,
        packages=tuple(row for row in rows if row[1] != row[2]),
    )


def read_image(path: Path) -> ImageContents:
    """The contents of an archive in the docker-save layout. Raises Malformed."""
    members = TarMembers(path, path.name)
    try:
        entries = msgspec.json.decode(
            read_document(members, "manifest.json"), type=list[DockerManifestEntry]
        )
    except UNREADABLE as error:
        raise Malformed(f"{path.name}: damaged image: manifest.json: {error}") from error
    if len(entries) != 1:
        raise Malformed(f"{path.name}: holds {len(entries)} images")
    config = read_config(read_document(members, entries[0].config))
    packages: dict[str, str] = {}
    for name in entries[0].layers:
        member = members.find(name)
        if member is None:
            raise Malformed(f"{path.name}: damaged image: {name[:100]} is missing")
        with path.open("rb") as file:
            file.seek(member.offset)
            # A package that an upper layer lists again has the version of that layer.
            packages |= dict(_packages(file))
    return ImageContents(layers=tuple(config.rootfs.diff_ids), packages=packages)


async def _read(api: ApiClient, blocks: BlockClient, pdh: str) -> ImageContents:
    record = await api.get("collections", pdh)
    files = list(filetree.files(filetree.from_manifest(record["manifest_text"])))
    if len(files) != 1:
        raise Malformed(f"{pdh}: is no image: it has {len(files)} files")
    _, file = files[0]
    if file.size > LARGEST:
        raise Malformed(f"{pdh}: the image has {file.size} bytes, too many to be compared")
    with tempfile.TemporaryDirectory(prefix="lading-image-") as folder:
        target = Path(folder) / "image.tar"
        await download_file(blocks, file, target)
        return read_image(target)


def _packages(layer: IO[bytes]) -> Iterator[tuple[str, str]]:
    """Names and versions in a layer; of a compressed layer none."""
    try:
        with tarfile.open(fileobj=layer, mode="r:") as tar:
            for number, member in enumerate(tar):
                if number > _MOST_MEMBERS:
                    raise Malformed("an image has more files than can be compared")
                name = posixpath.normpath(member.name).lstrip("/")
                if found := _PYTHON.fullmatch(name):
                    yield f"python {found[1]}", found[2]
                marks = _marks(name)
                if marks and member.isreg() and not member.issparse():
                    yield from _listed(_lines(tar, member), marks)
    except (tarfile.TarError, EOFError, ValueError, OverflowError):
        return


def _marks(name: str) -> tuple[str, str] | None:
    """Prefixes of the lines of name and version, if this file lists packages of a distribution."""
    if name == _ALPINE:
        return _APK
    return _DPKG if _DEBIAN.fullmatch(name) else None


def _lines(tar: tarfile.TarFile, member: tarfile.TarInfo) -> list[str]:
    """The lines of a list of packages; none of one that is too long."""
    file = tar.extractfile(member) if member.size <= _MOST_LIST else None
    return file.read().decode(errors="replace").splitlines() if file is not None else []


def _listed(lines: Iterable[str], marks: tuple[str, str]) -> Iterator[tuple[str, str]]:
    name = ""
    for line in lines:
        if line.startswith(marks[0]):
            name = line.removeprefix(marks[0]).strip()[:200]
        elif line.startswith(marks[1]) and name:
            yield name, line.removeprefix(marks[1]).strip()[:200]
        elif not line:
            name = ""
