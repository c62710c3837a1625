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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from lading.process.portable import set_mode

Stop = Callable[[], bool]
"""Returns whether a long step has to end; called every few hundred entries, in the calling
thread.
"""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a fifo must not wait for a writer. O_NOCTTY: no terminal becomes ours.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# Maximum of open descriptors of one removal. Deeper directories are moved up before they are
# emptied.
_REMOVAL_DEPTH = 32
# Entries between two calls of `stop`: some 2 ms of work.
_STRIDE = 256
# A directory is read again when entries are left: moved up, or skipped by a file system that
# changes its order while entries are removed. More rounds than this without a move mean that
# another process still writes to it.
_ROUNDS = 8
# Descriptors kept open by a walk.
_OPENED = 32
_MOVED = ".lading-moved-"
# As the kernel's own limit for one look-up (MAXSYMLINKS).
_MAX_LINKS = 40
SMALL = 1 << 20
"""Bytes read of a file like /etc/passwd."""


class Stopped(Exception):
    """A long step ended early because its `stop` returned true."""


def never() -> bool:
    """The `stop` of a step that cannot be stopped."""
    return False


class ConfinedTree:
    """A directory and everything below it. Close it, or use it as a context manager."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def open(cls, directory: str | Path) -> Self:
        """The tree at a trusted path: links above its last element are followed, the last is
        not.
        """
        return cls(os.open(directory, _DIRECTORY))

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
        here = os.dup(self.descriptor)
        try:
            for name in _elements(path):
                below = _enter(here, name, make)
                os.close(here)
                here = below
        except BaseException:
            # On any exception, a signal too: else the descriptor would leak.
            os.close(here)
            raise
        return ConfinedTree(here)

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
                        asked = _ask(asked, stop)
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
                    asked = _ask(asked, stop)
                    # It may have been renamed or removed meanwhile, or replaced by a link.
                    with suppress(FileNotFoundError, NotADirectoryError):
                        found = entry.stat(follow_symlinks=False)
                        yield found
                        if stat.S_ISDIR(found.st_mode) and found.st_dev == device:
                            below = os.open(
                                entry.name,
                                _DIRECTORY,
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
            if not _unlink(name, folder):
                _Removal(folder, stop).directory(name)

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
    return ConfinedTree(os.open(name, _DIRECTORY, dir_fd=folder))


def open_regular(name: str, folder: int) -> int:
    """A descriptor to read the regular file `name` in a directory; EINVAL where it is anything
    else.
    """
    descriptor = os.open(name, _FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return descriptor


def read_text_in_root(root: str | Path, path: str, limit: int = SMALL) -> str:
    """The first `limit` bytes of a file below `root`, or "" where there is no such regular file.

    Links are followed as by a process whose root directory is `root`.
    """
    try:
        with ConfinedTree.open(root) as top:
            descriptor = _resolve_in_root(top, path)
            with open(descriptor, "rb") as file:
                return file.read(limit).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def remove(place: str | Path, *, keep: str = "", stop: Stop = never) -> None:
    """Remove a file or a directory of ours with untrusted content. A missing entry is no error.

    `keep`: the entry of the directory that is removed last. Raises OSError for entries that cannot
    be removed, after all others are.
    """
    place = Path(place)
    try:
        # The directory that holds it is ours, and may be a link that the operator made.
        folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        # Somebody else has removed it meanwhile.
        with suppress(FileNotFoundError):
            if not _unlink(place.name, folder):
                _Removal(folder, stop, keep).directory(place.name)
    finally:
        os.close(folder)


class _Opened:
    """Recently opened directories of a tree, by path: the next one is mostly near one of them."""

    def __init__(self, tree: ConfinedTree) -> None:
        self._tree = tree
        self._known: dict[str, int] = {}

    def open(self, path: str) -> int:
        """The descriptor of the directory, which stays open until another is opened. Raises
        OSError.
        """
        above, names = path, list[str]()
        while above and above not in self._known:
            above, _, name = above.rpartition("/")
            names.append(name)
        here = os.dup(self._known[above] if above else self._tree.descriptor)
        try:
            while names:
                below = _enter(here, names.pop(), None)
                os.close(here)
                here = below
            if path in self._known:
                return self._known[path]
            if len(self._known) >= _OPENED:
                os.close(self._known.pop(next(iter(self._known))))
            self._known[path] = os.dup(here)
            return self._known[path]
        finally:
            os.close(here)

    def close(self) -> None:
        for descriptor in self._known.values():
            os.close(descriptor)
        self._known.clear()


class _Frame:
    """A directory that is being emptied: its descriptor, its name in its parent, the rest of its
    entries.
    """

    def __init__(self, descriptor: int, name: str, inode: int) -> None:
        self.descriptor, self.name, self.inode = descriptor, name, inode
        self.entries = os.scandir(descriptor)
        self.rounds = 1

    def again(self) -> None:
        """Read the entries from the start."""
        self.entries.close()
        self.entries, self.rounds = os.scandir(self.descriptor), self.rounds + 1

    def close(self) -> None:
        self.entries.close()
        os.close(self.descriptor)


class _Removal:
    """Removes one directory. At most `_REMOVAL_DEPTH` directories are open at a time.

    A directory deeper than that is moved up into the topmost one, and found there in a later round.
    """

    def __init__(self, parent: int, stop: Stop, keep: str = "") -> None:
        self._parent, self._stop, self._keep = parent, stop, keep
        self._asked = self._moved = 0
        self._failed: OSError | None = None
        self._device = os.fstat(parent).st_dev
        # Inodes of entries that cannot be removed, so that no round tries them again.
        self._stuck: set[int] = set()
        self._stack: list[_Frame] = []

    def directory(self, name: str) -> None:
        """Remove the directory; raises the first error after all else is removed, Stopped."""
        try:
            self._descend(name, -1)
            while self._stack:
                self._step(self._stack[-1])
        finally:
            for frame in self._stack:
                frame.close()
        if self._failed is not None:
            raise self._failed

    def _descend(self, name: str, inode: int) -> None:
        descriptor = _open_for_removal(
            name, self._stack[-1].descriptor if self._stack else self._parent
        )
        if os.fstat(descriptor).st_dev != self._device:
            os.close(descriptor)
            raise OSError(errno.EBUSY, "another file system is mounted here", name)
        self._stack.append(_Frame(descriptor, name, inode))

    def _step(self, frame: _Frame) -> None:
        """Continue with a directory up to its next subdirectory, or to its end."""
        for entry in frame.entries:
            self._asked = _ask(self._asked, self._stop)
            inode = entry.inode()
            if inode in self._stuck or (entry.name == self._keep and frame is self._stack[0]):
                continue
            try:
                if self._enters(entry, inode, frame):
                    return
            except FileNotFoundError:
                continue
            except NotADirectoryError:
                # It was replaced a moment ago; a later round finds its new type.
                self._moved += 1
            except OSError as error:
                self._note(error, inode)
        self._finish(frame)

    def _enters(self, entry: os.DirEntry[str], inode: int, frame: _Frame) -> bool:
        """Remove an entry, or enter it when it is a directory with entries: then True."""
        # The type from the listing saves a system call; unlink and open decide by the present
        # type.
        is_directory = entry.is_dir(follow_symlinks=False)
        if (_remove_empty if is_directory else _unlink)(entry.name, frame.descriptor):
            return False
        if len(self._stack) < _REMOVAL_DEPTH:
            self._descend(entry.name, inode)
            return True
        self._move_up(entry.name, frame.descriptor)
        return False

    def _note(self, error: OSError, inode: int) -> None:
        self._failed = self._failed or error
        self._stuck.add(inode)

    def _finish(self, frame: _Frame) -> None:
        parent = self._stack[-2].descriptor if len(self._stack) > 1 else self._parent
        try:
            if (
                self._keep
                and len(self._stack) == 1
                and self._failed is None
                and not self._has_more(frame)
            ):
                os.unlink(self._keep, dir_fd=frame.descriptor)
        except OSError:
            # It is missing, or no file: it is then treated as any other entry.
            self._keep = ""
        try:
            os.rmdir(frame.name, dir_fd=parent)
        except FileNotFoundError:
            pass
        except OSError as error:
            if (
                error.errno == errno.ENOTEMPTY
                and frame.rounds < self._moved + _ROUNDS
                and self._has_more(frame)
            ):
                frame.again()
                return
            self._note(error, frame.inode)
        self._stack.pop().close()

    def _has_more(self, frame: _Frame) -> bool:
        with os.scandir(frame.descriptor) as entries:
            top = frame is self._stack[0]
            return any(
                entry.inode() not in self._stuck and not (top and entry.name == self._keep)
                for entry in entries
            )

    def _move_up(self, name: str, folder: int) -> None:
        top = self._stack[0].descriptor
        while True:
            self._moved += 1
            target = f"{_MOVED}{self._moved}"
            try:
                os.stat(target, dir_fd=top, follow_symlinks=False)
            except FileNotFoundError:
                return os.rename(name, target, src_dir_fd=folder, dst_dir_fd=top)


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
    return os.open(name, _DIRECTORY, dir_fd=folder)


def _ask(asked: int, stop: Stop) -> int:
    if asked % _STRIDE == 0 and stop():
        raise Stopped
    return asked + 1


def _unlink(name: str, folder: int) -> bool:
    """Remove an entry that is no directory; False for a directory."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        return False
    except PermissionError as error:
        # Without root, in a directory that is no longer writable; some file systems return EPERM
        # for a directory.
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        if error.errno != errno.EACCES or not _make_writable(folder):
            raise
        os.unlink(name, dir_fd=folder)
    return True


def _remove_empty(name: str, folder: int) -> bool:
    """Remove a directory that is empty, with one call in place of the eight that open, read and
    close it; False for any other entry.
    """
    try:
        os.rmdir(name, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    return True


def _make_writable(folder: int) -> bool:
    try:
        os.fchmod(folder, 0o700)
    except OSError:
        return False
    return True


def _open_for_removal(name: str, folder: int) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=folder)
    except PermissionError:
        # Its owner may have removed the read permission.
        set_mode(name, 0o700, folder=folder)
        return os.open(name, _DIRECTORY, dir_fd=folder)


def _target(name: str, folder: int) -> str:
    """The target of a symbolic link; "" for an entry that is none."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        # No symbolic link (readlink(2)).
        if error.errno == errno.EINVAL:
            return ""
        raise


def _resolve_in_root(top: ConfinedTree, path: str) -> int:
    """A descriptor of the regular file that `path` names for a process with the root `top`."""
    stack = [os.dup(top.descriptor)]
    rest, links = _reversed_names(path), 0
    try:
        while rest:
            name = rest.pop()
            if name == ".":
                continue
            if name == "..":
                # The parent of the root is the root.
                _close_beyond(stack, max(1, len(stack) - 1))
                continue
            target = _target(name, stack[-1])
            if target:
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if target.startswith("/"):
                    _close_beyond(stack, 1)
                rest += _reversed_names(target)
            elif rest:
                stack.append(os.open(name, _DIRECTORY, dir_fd=stack[-1]))
            else:
                return open_regular(name, stack[-1])
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    finally:
        _close_beyond(stack, 0)


def _reversed_names(path: str) -> list[str]:
    return [name for name in reversed(path.split("/")) if name]


def _close_beyond(stack: list[int], length: int) -> None:
    while len(stack) > length:
        os.close(stack.pop())
