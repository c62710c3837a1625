"""Confined file access: directory trees that a container, an image or a stranger wrote.

The owner of such a tree may swap a directory for a symbolic link at any moment, nest directories
deeper than a path can name, and put a fifo where a file is expected. A `ConfinedTree` therefore
holds the descriptor of its top directory and opens each path below it element by element, each
relative to the descriptor of the one before and with O_NOFOLLOW: no link is ever followed, ".." is
refused, and an opened file is below the top whatever happens meanwhile. Every loop is iterative.

Start with `ConfinedTree.open`. Paths are relative, "" is the top. All functions block and raise
OSError: ELOOP or ENOTDIR where a link is in the way, as in openat(2).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from lading.process.cancellation import Stop, check_stop, never
from lading.process.portable import NO_INHERIT, NO_LINK, NO_TERMINAL, NO_WAIT
from lading.process.tree_removal import DIRECTORY, TreeRemoval, unlink

# O_NONBLOCK: opening a fifo must not wait for a writer. O_NOCTTY: no terminal becomes ours.
_FILE = os.O_RDONLY | NO_LINK | NO_WAIT | NO_TERMINAL | NO_INHERIT
# Descriptors kept open by a walk.
_OPENED = 32
SMALL = 1 << 20
"""Bytes read of a file like /etc/passwd."""


class ConfinedTree:
    """A directory and everything below it. Close it, or use it as a context manager."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def open(cls, directory: str | Path) -> Self:
        """The tree at a trusted path: links above its last element are followed, the last is
        not.
        """
        return cls(os.open(directory, DIRECTORY))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor. Closing twice is no error."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def open_tree(self, path: str = "", *, make: int | None = None) -> ConfinedTree:
        """The tree at `path`. `make`: the mode of directories to create where they are missing."""
        directory = os.dup(self.descriptor)
        try:
            for name in _elements(path):
                below = _enter(directory, name, make)
                os.close(directory)
                directory = below
        except BaseException:
            # On any exception, a signal too: else the descriptor would leak.
            os.close(directory)
            raise
        return ConfinedTree(directory)

    @contextmanager
    def parent(self, path: str, *, make: int | None = None) -> Iterator[tuple[int, str]]:
        """The descriptor of the directory that holds `path`, and the last element of `path`.

        For calls with `dir_fd`, which must not follow a link at the last element. `make` as above.
        """
        *above, name = _elements(path) or [""]
        if not name:
            raise OSError(errno.EINVAL, "the top of a tree has no parent in it", path)
        if not above:
            yield self.descriptor, name
            return
        with self.open_tree("/".join(above), make=make) as tree:
            yield tree.descriptor, name

    def stat(self, path: str = "") -> os.stat_result:
        """Status of the entry at `path`; a link is not followed."""
        if not path:
            return os.fstat(self.descriptor)
        with self.parent(path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def open_file(self, path: str) -> int:
        """A descriptor to read the regular file at `path`; EINVAL where it is anything else."""
        with self.parent(path) as (folder, name):
            return open_regular(name, folder)

    def read(self, path: str, limit: int) -> bytes:
        """The first `limit` bytes of the regular file at `path`."""
        descriptor = self.open_file(path)
        with open(descriptor, "rb") as file:
            return file.read(limit)

    def scan(self, path: str = "") -> Iterator[os.DirEntry[str]]:
        """The entries of the directory at `path`, in no order; `is_dir` must not follow links."""
        with self.open_tree(path) as tree, os.scandir(tree.descriptor) as entries:
            yield from entries

    def walk(self, *, max_depth: int, stop: Stop = never) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Every entry below, with the path of its directory ("" is the top); parents come first.

        Raises ELOOP for a directory more than `max_depth` elements below the top, Stopped.
        """
        for _, folder, entry in self.walk_at(max_depth=max_depth, stop=stop):
            yield folder, entry

    def walk_at(
        self, *, max_depth: int, stop: Stop = never
    ) -> Iterator[tuple[int, str, os.DirEntry[str]]]:
        """Like `walk`, with the descriptor of the entry's directory, which is open until the next
        entry is requested.
        """
        asked = 0
        folders = [""]
        opened = _Opened(self)
        try:
            while folders:
                folder = folders.pop()
                try:
                    descriptor = opened.open(folder)
                except (FileNotFoundError, NotADirectoryError):
                    # It was renamed or removed meanwhile.
                    continue
                inner: list[str] = []
                with os.scandir(descriptor) as entries:
                    for entry in entries:
                        asked = check_stop(asked, stop)
                        yield descriptor, folder, entry
                        if entry.is_dir(follow_symlinks=False):
                            inner.append(f"{folder}/{entry.name}" if folder else entry.name)
                if inner and inner[0].count("/") >= max_depth:
                    raise OSError(
                        errno.ELOOP, f"directories lie more than {max_depth} deep", folder
                    )
                folders += inner
        finally:
            opened.close()

    def survey(self, *, max_depth: int, stop: Stop = never) -> Iterator[os.stat_result]:
        """The status of every entry below, in no order; other file systems mounted there are not
        entered.

        At most `max_depth` directories are open at a time, each opened once. Raises ELOOP for
        deeper ones, Stopped.
        """
        asked, device = 0, os.fstat(self.descriptor).st_dev
        opened: list[int] = []
        readers = [os.scandir(self.descriptor)]
        try:
            while readers:
                below = -1
                for entry in readers[-1]:
                    asked = check_stop(asked, stop)
                    # It may have been renamed or removed meanwhile, or replaced by a link.
                    with suppress(FileNotFoundError, NotADirectoryError):
                        found = entry.stat(follow_symlinks=False)
                        yield found
                        if stat.S_ISDIR(found.st_mode) and found.st_dev == device:
                            below = os.open(
                                entry.name,
                                DIRECTORY,
                                dir_fd=opened[-1] if opened else self.descriptor,
                            )
                            break
                if below >= 0:
                    opened.append(below)
                    if len(opened) > max_depth:
                        raise OSError(
                            errno.ELOOP, f"directories lie more than {max_depth} deep", entry.name
                        )
                    readers.append(os.scandir(below))
                    continue
                readers.pop().close()
                if opened:
                    os.close(opened.pop())
        finally:
            for reader in readers:
                reader.close()
            for descriptor in opened:
                os.close(descriptor)

    def remove(self, path: str, *, stop: Stop = never) -> None:
        """Remove the file or the directory at `path` with everything in it.

        Entries that cannot be removed are skipped; the first such OSError is raised at the end.
        Other file systems mounted in the tree are not entered. A missing entry is no error.
        """
        with suppress(FileNotFoundError), self.parent(path) as (folder, name):
            if not unlink(name, folder):
                TreeRemoval(folder, stop).directory(name)

    def clear(self, *, keep: str = "", stop: Stop = never) -> None:
        """Remove everything below the top, but for the entry named `keep`. Raises as `remove`."""
        failed: OSError | None = None
        with os.scandir(self.descriptor) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            if name != keep:
                try:
                    self.remove(name, stop=stop)
                except OSError as error:
                    failed = failed or error
        if failed is not None:
            raise failed


def open_directory(name: str, folder: int) -> ConfinedTree:
    """The tree at the directory `name` in a directory; ENOTDIR where it is anything else."""
    return ConfinedTree(os.open(name, DIRECTORY, dir_fd=folder))


def open_regular(name: str, folder: int) -> int:
    """A descriptor to read the regular file `name` in a directory; EINVAL where it is anything
    else.
    """
    descriptor = os.open(name, _FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return descriptor


class _Opened:
    """Recently opened directories of a tree, by path: the next one is mostly near one of them."""

    def __init__(self, tree: ConfinedTree) -> None:
        self._tree = tree
        self._descriptors: dict[str, int] = {}

    def open(self, path: str) -> int:
        """The descriptor of the directory, which stays open until another is opened. Raises
        OSError.
        """
        above, names = path, list[str]()
        while above and above not in self._descriptors:
            above, _, name = above.rpartition("/")
            names.append(name)
        directory = os.dup(self._descriptors[above] if above else self._tree.descriptor)
        try:
            while names:
                below = _enter(directory, names.pop(), None)
                os.close(directory)
                directory = below
            if path in self._descriptors:
                return self._descriptors[path]
            if len(self._descriptors) >= _OPENED:
                os.close(self._descriptors.pop(next(iter(self._descriptors))))
            self._descriptors[path] = os.dup(directory)
            return self._descriptors[path]
        finally:
            os.close(directory)

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()


def _elements(path: str) -> list[str]:
    names = path.split("/") if path else []
    if path.startswith("/") or any(name in ("", ".", "..") for name in names):
        raise OSError(errno.EINVAL, "not a plain relative path", path)
    return names


def _enter(folder: int, name: str, make: int | None) -> int:
    if make is not None:
        # A present entry must be a directory, which the next line checks.
        with suppress(FileExistsError):
            os.mkdir(name, make, dir_fd=folder)
    return os.open(name, DIRECTORY, dir_fd=folder)
