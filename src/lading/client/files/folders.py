"""Open directories of this machine below which files are written.

A `DescriptorFolder` is opened by its name in the one above it, and the kernel follows no link: it
stays the same directory whatever is renamed meanwhile. Systems whose calls take no descriptor of a
directory, such as Windows, have the `PathFolder`: it looks whether a name is a link before it uses
it, so that a link which is made between the two is followed (docs/security.md).
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, Self

from lading.process import portable

# O_NOFOLLOW: the last element must not be a link. Each element is the last one of its own open.
_FOLDER: Final = os.O_RDONLY | portable.ONLY_DIRECTORY | portable.NO_LINK | portable.NO_INHERIT
_NEW_FILE: Final = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | portable.NO_LINK
    | portable.NO_INHERIT
    | portable.AS_BYTES
)
_REPARSE_POINT: Final = 0x400
"""Attribute of links and junctions of Windows (FILE_ATTRIBUTE_REPARSE_POINT)."""


class Folder(Protocol):
    """An open directory. All methods raise OSError."""

    def enter(self, name: str) -> Folder:
        """The directory of this name, made if absent; a link is refused."""

    def create(self, name: str) -> int:
        """A descriptor of a new file."""

    def has(self, name: str) -> bool:
        """Whether there is an entry of this name; a link counts."""

    def rename(self, name: str, target: str) -> None:
        """Rename an entry; a file of the target's name is replaced."""

    def remove(self, name: str) -> None:
        """Remove a file."""

    def copy(self) -> Self:
        """The same directory, to be closed by itself."""

    def close(self) -> None:
        """Give the directory back."""


class DescriptorFolder:
    """A directory by its descriptor, which it owns."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def enter(self, name: str) -> DescriptorFolder:
        """See Folder."""
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=self._descriptor)
        # Without O_CREAT: if a link or a file was put there, the open fails.
        return DescriptorFolder(os.open(name, _FOLDER, dir_fd=self._descriptor))

    def create(self, name: str) -> int:
        """See Folder."""
        return os.open(name, _NEW_FILE, 0o666, dir_fd=self._descriptor)

    def has(self, name: str) -> bool:
        """See Folder."""
        try:
            os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def rename(self, name: str, target: str) -> None:
        """See Folder."""
        os.rename(name, target, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """See Folder."""
        os.unlink(name, dir_fd=self._descriptor)

    def copy(self) -> DescriptorFolder:
        """See Folder."""
        return DescriptorFolder(os.dup(self._descriptor))

    def close(self) -> None:
        """See Folder."""
        os.close(self._descriptor)


class PathFolder:
    """A directory by its path."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def enter(self, name: str) -> PathFolder:
        """See Folder."""
        path = self._path / name
        with suppress(FileExistsError):
            path.mkdir()
        facts = path.lstat()
        is_link = getattr(facts, "st_file_attributes", 0) & _REPARSE_POINT
        if is_link or not stat.S_ISDIR(facts.st_mode):
            raise NotADirectoryError(20, "a link or a file is in the way", name)
        return PathFolder(path)

    def create(self, name: str) -> int:
        """See Folder."""
        return os.open(self._path / name, _NEW_FILE, 0o666)

    def has(self, name: str) -> bool:
        """See Folder."""
        return os.path.lexists(self._path / name)

    def rename(self, name: str, target: str) -> None:
        """See Folder."""
        (self._path / name).replace(self._path / target)

    def remove(self, name: str) -> None:
        """See Folder."""
        (self._path / name).unlink()

    def copy(self) -> PathFolder:
        """See Folder."""
        return self

    def close(self) -> None:
        """See Folder."""


def open_folder(path: Path) -> Folder:
    """The directory of a path; links on the way to it are the caller's. Raises OSError."""
    if not portable.HAS_FOLDER_DESCRIPTORS:
        if not path.is_dir():
            raise NotADirectoryError(20, "not a directory", str(path))
        return PathFolder(path)
    return DescriptorFolder(os.open(path, os.O_RDONLY | os.O_DIRECTORY | portable.NO_INHERIT))
