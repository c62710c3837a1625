"""Faults of paths: of the error tree, and the exceptions of the same faults on a disk."""

from __future__ import annotations

from lading.core.errors import Conflict, Forbidden, Invalid, NotFound


class NoSuchFile(NotFound, FileNotFoundError):
    """There is no file or directory at a path."""


class FileIsThere(Conflict, FileExistsError):
    """There is a file or directory at a path already."""


class IsDirectory(Invalid, IsADirectoryError):
    """A file is needed, and a directory is there."""


class IsNoDirectory(Invalid, NotADirectoryError):
    """A directory is needed, and a file is there."""


class NotPermitted(Forbidden, PermissionError):
    """The caller may not do it."""
