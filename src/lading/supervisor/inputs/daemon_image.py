"""An image for Docker or podman with the files of one whose layers they refuse or misread.

`client.images.layer_scan` says which layers those are. The files are those that Lading unpacks, in
one layer; the settings are the same. So a container has equal files with each engine.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from lading.client.images.archive import ImageParts as Parts
from lading.client.images.archive import Layer, write_archive
from lading.client.images.layer_scan import XATTR, LayerScan
from lading.client.images.tar_reader import TarReader, members
from lading.core.errors import ExecutionError, Failure
from lading.core.images import MOST_ELEMENTS
from lading.process.confined import open_regular
from lading.supervisor.inputs.image_archive import ImageArchive
from lading.supervisor.inputs.layer_writer import Watch
from lading.supervisor.inputs.merged_layers import LayerFile, MergedLayers

_COMMANDS = ("Entrypoint", "Cmd")
_TYPES = {
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
    stat.S_IFCHR: tarfile.CHRTYPE,
}


def unfit(archive: ImageArchive, watch: Watch) -> str:
    """Why a daemon cannot use an image as it is, or "". Raises ExecutionError(IMAGE)."""
    if odd := _odd_setting(msgspec.json.decode(archive.configuration).get("config") or {}):
        return odd
    layers = [partial(_members, archive, name, watch) for name in archive.saved.layers]
    try:
        return LayerScan().run(layers).unfit
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise ExecutionError(f"a layer of the image is damaged: {error}", Failure.IMAGE) from error


@contextmanager
def _members(archive: ImageArchive, name: str, watch: Watch) -> Iterator[Iterator[tarfile.TarInfo]]:
    def watched(tar: TarReader) -> Iterator[tarfile.TarInfo]:
        for number, member in enumerate(members(tar)):
            if number % 1000 == 0:
                watch()
            yield member

    with archive.open(name) as file, TarReader.open(fileobj=file, mode="r:*") as tar:
        yield watched(tar)


def _odd_setting(settings: dict[str, Any]) -> str:
    """A setting that a daemon does not take, or ""."""
    for name in _COMMANDS:
        if isinstance(settings.get(name), str):
            return f"its {name} is one text"
    named = [entry for entry in settings.get("Env") or () if entry.startswith("=")]
    return f"its environment has {named[0][:100]!r}, which has no name" if named else ""


def _mend(settings: dict[str, Any]) -> None:
    """Change settings to a form that daemons take, of the same meaning."""
    for name in _COMMANDS:
        if isinstance(settings.get(name), str):
            settings[name] = [settings[name]] if settings[name] else []
    if settings.get("Env"):
        settings["Env"] = [entry for entry in settings["Env"] if not entry.startswith("=")]


def write_equal(
    configuration: bytes, layers: Sequence[Path], folder: Path, *, watch: Watch
) -> tuple[str, Path]:
    """Write an image with these settings and the files of unpacked `layers`, lowest first, as one
    layer below `folder`; its id, and its archive. Raises OSError.
    """
    path = folder / "layer.tar"
    with path.open("wb") as file, MergedLayers(layers) as merged:
        _write_layer(file, merged, watch)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    layer = Layer(path=path, size=path.stat().st_size, diff_id=f"sha256:{digest}")
    described: dict[str, Any] = msgspec.json.decode(configuration)
    described["rootfs"] = {"type": "layers", "diff_ids": [layer.diff_id]}
    described.pop("history", None)
    _mend(described.get("config") or {})
    parts = Parts(config=msgspec.json.encode(described), layers=(layer,))
    normal = write_archive(parts, folder / "image.tar")
    path.unlink()
    return normal.digest, normal.path


def _write_layer(file: IO[bytes], merged: MergedLayers, watch: Watch) -> None:
    written: dict[tuple[int, int], str] = {}
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for number, entry in enumerate(merged.walk(max_depth=MOST_ELEMENTS)):
            if number % 1000 == 0:
                watch()
            _write(tar, entry, written)


def _write(tar: tarfile.TarFile, entry: LayerFile, written: dict[tuple[int, int], str]) -> None:
    status = entry.status
    member = tarfile.TarInfo(entry.path)
    member.type = _TYPES[stat.S_IFMT(status.st_mode)]
    member.mode, member.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
    member.uid, member.gid = status.st_uid, status.st_gid
    with entry.tree.parent(entry.path) as (folder, name):
        key = (status.st_dev, status.st_ino)
        if member.isreg() and key in written:
            member.type, member.linkname = tarfile.LNKTYPE, written[key]
            tar.addfile(member)
            return
        member.pax_headers = _attributes(f"/proc/self/fd/{folder}/{name}")
        if member.issym():
            member.linkname = os.readlink(name, dir_fd=folder)
        elif member.ischr():
            member.devmajor, member.devminor = os.major(status.st_rdev), os.minor(status.st_rdev)
        if not member.isreg():
            tar.addfile(member)
            return
        if status.st_nlink > 1:
            written[key] = entry.path
        member.size = status.st_size
        with open(open_regular(name, folder), "rb") as content:
            tar.addfile(member, cast(IO[bytes], content))


def _attributes(path: str) -> dict[str, str]:
    """The attributes of an entry, as pax headers; those of overlayfs are not for others."""
    names = os.listxattr(path, follow_symlinks=False)
    return {
        f"{XATTR}{name}": os.getxattr(path, name, follow_symlinks=False).decode(
            "utf-8", "surrogateescape"
        )
        for name in names
        if not name.startswith("trusted.overlay.")
    }
