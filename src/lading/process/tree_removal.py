"""Removes directories whose owner may be an attacker; see `confined` for the ways of access.

Links are not followed, neither depth nor width is an obstacle, and what cannot be removed does not
keep the rest.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from lading.process.cancellation import Stop, check_stop, never
from lading.process.portable import NO_INHERIT, NO_LINK, ONLY_DIRECTORY, set_mode

DIRECTORY = os.O_RDONLY | ONLY_DIRECTORY | NO_LINK | NO_INHERIT
"""Flags to open a directory that is no symbolic link."""
# Maximum of open descriptors of one removal. Deeper directories are moved up before they are
# emptied.
_REMOVAL_DEPTH = 32
# A directory is read again when entries are left: moved up, or skipped by a file system that
# changes its order while entries are removed. More rounds than this without a move mean that
# another process still writes to it.
_ROUNDS = 8
_MOVED = ".lading-moved-"


def remove(path: str | Path, *, keep: str = "", stop: Stop = never) -> None:
    """Remove a file or a directory of ours with untrusted content. A missing entry is no error.

    `keep`: the entry of the directory that is removed last. Raises OSError for entries that cannot
    be removed, after all others are.
    """
    path = Path(path)
    try:
        # The directory that holds it is ours, and may be a link that the operator made.
        folder = os.open(path.parent, os.O_RDONLY | ONLY_DIRECTORY | NO_INHERIT)
    except FileNotFoundError:
        return
    try:
        # Somebody else has removed it meanwhile.
        with suppress(FileNotFoundError):
            if not unlink(path.name, folder):
                TreeRemoval(folder, stop, keep).directory(path.name)
    finally:
        os.close(folder)


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


class TreeRemoval:
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
            self._asked = check_stop(self._asked, self._stop)
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
        if (_remove_empty if is_directory else unlink)(entry.name, frame.descriptor):
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


def unlink(name: str, folder: int) -> bool:
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
        return os.open(name, DIRECTORY, dir_fd=folder)
    except PermissionError:
        # Its owner may have removed the read permission.
        set_mode(name, 0o700, folder=folder)
        return os.open(name, DIRECTORY, dir_fd=folder)
