"""An image of one layer from a root file system, given as a tar or a directory.

A tar is kept byte for byte. Of a directory, owners, modes and times are kept; device files and
sockets are left out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from lading.client.images.archive import Parts, make_config
from lading.client.images.layer import Entry, write_layer
from lading.client.images.members import Slice, plain_layer
from lading.core.errors import Invalid

_TOPS = frozenset(("bin", "usr", "sbin", "etc", "lib"))
_KEPT = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK, stat.S_ISFIFO)


def is_rootfs(tops: set[str]) -> bool:
    """Whether the top-level names look like a root file system."""
    return not _TOPS.isdisjoint(tops)


def read_rootfs_tar(path: Path, folder: Path, *, architecture: str, source: str) -> Parts:
    """The parts of an image whose only layer is the (uncompressed) tar `path`."""
    layer = plain_layer(Slice(path, 0, path.stat().st_size), folder / "layer.tar", source)
    config = make_config(
        [layer], architecture=architecture, created_by=f"lading image add {Path(source).name}"
    )
    return Parts(config=config, layers=(layer,))


def read_rootfs_directory(path: Path, folder: Path, *, architecture: str) -> Parts:
    """The parts of an image whose only layer is the directory `path`. Raises Invalid for an
    unreadable file.
    """
    layer = write_layer(_entries(path), folder / "layer.tar")
    config = make_config(
        [layer], architecture=architecture, created_by=f"lading image add {path.resolve().name}"
    )
    return Parts(config=config, layers=(layer,))


def _entries(root: Path) -> Iterator[Entry]:
    # Without it, os.walk leaves out unreadable directories.
    def refuse(error: OSError) -> None:
        raise Invalid(f"{error.filename}: cannot be put into the image: {error.strerror}")

    for folder, names, files in os.walk(root, onerror=refuse):
        for name in (*names, *files):
            path = Path(folder, name)
            status = path.lstat()
            if not any(kept(status.st_mode) for kept in _KEPT):
                continue
            yield Entry(
                path="/" + os.path.relpath(path, root),
                mode=status.st_mode,
                source=path if stat.S_ISREG(status.st_mode) else None,
                target=str(path.readlink()) if stat.S_ISLNK(status.st_mode) else "",
                owner=(status.st_uid, status.st_gid),
                modified=int(status.st_mtime),
            )
