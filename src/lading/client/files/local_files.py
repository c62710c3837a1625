"""Files of this machine that collections read and write.

`SafeWriter` writes files below one directory, and nowhere else. Each directory on the way is opened
by its name in the previous one, without following symbolic links, so that neither `..` nor a link
leads outside, even one that is created meanwhile. A file is written under a temporary name in its
directory and renamed when complete. All functions block: call them in a thread. A lock serializes
them, so that a cancelled caller may close at once.

`SmallFiles` reads many small files with three system calls each and little Python code. A file is
opened relative to the descriptor of its directory, so that the kernel resolves no path, and never
through a symbolic link. Its content is read with one call into memory that all files share; a short
read means the end of the file.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from lading.client.files.folders import Folder, open_folder
from lading.core.data import filetree, portable_names
from lading.core.data.filetree import FileTree
from lading.core.data.portable_names import SAMPLES, NameDifference, Twins
from lading.core.errors import Conflict, Full, Invalid, LadingError, Unavailable
from lading.process import portable
from lading.process.cancellation import Stop, Stopped, never

# rename(2) and open(2) give these when another kind of file is there.
_IN_THE_WAY = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY)
_NO_ROOM = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
SMALL: Final = 1 << 17
"""Bytes of the largest file that is read with one call."""
# A listed file may have become a pipe, whose open would wait for a writer.
_FILE: Final = os.O_RDONLY | portable.NO_INHERIT | portable.NO_LINK | portable.NO_WAIT
_STRIDE: Final = 256
"""Files between two checks for a stop, about 2 ms of work."""


class _Growing(msgspec.Struct):
    path: str
    aside: str
    folder: Folder
    file: int
    left: int


class SafeWriter:
    """Writes below `root`, which is created if absent. Raises Conflict, Full, Unavailable. The
    caller closes it. `open_root` opens the directory.
    """

    def __init__(self, root: Path, *, open_root: Callable[[Path], Folder] = open_folder) -> None:
        self._root = root
        self._turn = threading.Lock()
        self._closed = False
        self._growing: _Growing | None = None
        self._merged: dict[NameDifference, bool] = {}
        # Files come directory by directory: the descriptor of the last one saves the walk for all
        # but the first.
        self._last: tuple[str, Folder] | None = None
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._top = open_root(root)
        except OSError as error:
            raise self.failure(error, "") from error

    def make_folders(self, paths: Iterable[str]) -> None:
        """Make the directories at these paths, with their parents."""
        with self._turn:
            for path in paths:
                filetree.check_path(path)
                self._folder(path)

    def write(self, files: Mapping[str, Iterable[bytes]]) -> None:
        """Write complete files, each given by its pieces."""
        with self._turn:
            for path, pieces in files.items():
                growing = self._begin(path, 0)
                self._write(growing, b"".join(pieces))
                self._land(growing)

    def append(self, path: str, piece: bytes, size: int) -> bool:
        """Write the next piece of a file of `size` bytes; True if it was the last and the file has
        appeared.

        The pieces of one file must follow one another.
        """
        with self._turn:
            if self._growing is None:
                self._growing = self._begin(path, size)
            growing = self._growing
            self._write(growing, piece)
            growing.left -= len(piece)
            if growing.left <= 0:
                self._growing = None
                self._land(growing)
            return self._growing is None

    def begin(self, path: str, size: int) -> int:
        """Begin a file of `size` bytes that others write, at any offset; its descriptor, which
        stays open until `land` or `close`. One file at a time.
        """
        with self._turn:
            self._growing = self._begin(path, size)
            return self._growing.file

    def land(self) -> None:
        """Let the file of `begin` appear."""
        with self._turn:
            growing, self._growing = self._growing, None
            if growing is not None:
                self._land(growing)

    def close(self) -> None:
        """Remove incomplete files and close the directories."""
        with self._turn:
            self._closed = True
            if self._growing is not None:
                self._drop(self._growing)
                self._growing = None
            if self._last is not None:
                self._last[1].close()
                self._last = None
            self._top.close()

    def check_names(self, tree: FileTree) -> None:
        """Raise Conflict where the file system of the directory does not tell two names of a tree
        apart, and Invalid for a name that this system cannot have.
        """
        with self._turn:
            if portable.IS_WINDOWS and (name := portable_names.first_refused(tree)):
                raise Invalid(
                    f"{name[:200]}: Windows has no such name; get the others one by one, or use WSL"
                )
            for twins in portable_names.twins(tree):
                if self._merges(twins):
                    raise Conflict(
                        f"{twins.first[:80]} and {twins.second[:80]} differ by {twins.difference} "
                        f"alone, which the file system of {str(self._root)[:60]} does not tell "
                        "apart; get one of them by its path, or choose another target"
                    )

    def _merges(self, twins: Twins) -> bool:
        """Whether the file system takes names that differ so for one."""
        if twins.difference not in self._merged:
            # With a name that differs in the same way, and that nobody has.
            token = secrets.token_hex(8)
            first, second = (f".{token}{letter}" for letter in SAMPLES[twins.difference])
            try:
                os.close(self._top.create(first))
                try:
                    self._merged[twins.difference] = self._top.has(second)
                finally:
                    self._top.remove(first)
            except OSError as error:
                raise self.failure(error, "") from error
        return self._merged[twins.difference]

    def _folder(self, path: str) -> Folder:
        """The directory, open; it stays open until another directory is requested."""
        if self._closed:
            raise Unavailable(f"{self._root}: writing was given up")
        if self._last is not None and self._last[0] == path:
            return self._last[1]
        # A duplicate: the loop closes each directory when it has the next.
        directory = self._top.copy()
        for element in path.split("/") if path else ():
            try:
                below = directory.enter(element)
            except OSError as error:
                raise self.failure(error, path) from error
            finally:
                directory.close()
            directory = below
        if self._last is not None:
            self._last[1].close()
        self._last = (path, directory)
        return directory

    def _begin(self, path: str, size: int) -> _Growing:
        filetree.check_path(path)
        folder = self._folder(path.rpartition("/")[0]).copy()
        # A random name: nobody else in a shared directory can have put a file there before.
        aside = f".{secrets.token_hex(8)}.part"
        try:
            return _Growing(path, aside, folder, folder.create(aside), size)
        except OSError as error:
            folder.close()
            raise self.failure(error, path) from error

    def _write(self, growing: _Growing, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                # A write may be cut short, for example by a full disk.
                view = view[os.write(growing.file, view) :]
        except OSError as error:
            # `close` drops the file that `append` is writing.
            if growing is not self._growing:
                self._drop(growing)
            raise self.failure(error, growing.path) from error

    def _land(self, growing: _Growing) -> None:
        name = growing.path.rpartition("/")[2]
        try:
            if portable.IS_WINDOWS:
                # An open file cannot be renamed there.
                os.close(growing.file)
                growing.file = -1
            growing.folder.rename(growing.aside, name)
        except OSError as error:
            self._drop(growing)
            raise self.failure(error, growing.path) from error
        if growing.file >= 0:
            os.close(growing.file)
        growing.folder.close()

    def _drop(self, growing: _Growing) -> None:
        if growing.file >= 0:
            os.close(growing.file)
        with suppress(OSError):
            # Best effort: the error that led here is the one to report.
            growing.folder.remove(growing.aside)
        growing.folder.close()

    def failure(self, error: OSError, path: str) -> LadingError:
        """The error to raise for an error of the disk at this path."""
        where = self._root / path
        if error.errno in _IN_THE_WAY:
            return Conflict(
                f"{where}: a link, a file or a directory is in the way; "
                "move it or choose another target"
            )
        if error.errno in _NO_ROOM:
            return Full(f"{where}: no room is left on the disk")
        return Unavailable(f"{where}: cannot be written: {error.strerror}")


class SmallFiles:
    """A directory of the disk whose small files are read one after another, in the order of
    `names`.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.position = 0
        """Number of files that were read or skipped."""
        # One byte more than SMALL shows that a file is too large.
        self._memory = bytearray(SMALL + 1)

    def read(
        self, directory: int, buffer: bytearray, room: int, *, stop: Stop = never
    ) -> list[int]:
        """Append the content of the next files to `buffer` while it has at most `room` bytes;
        return the length of each.

        `directory` is the descriptor of the directory. It stops before a file of more than `SMALL`
        bytes, too. A file that is too long or cannot be read adds nothing. Raises OSError, naming
        the file, and Stopped.
        """
        lengths: list[int] = []
        # Local names: the loop runs for each of very many files, and attribute lookups cost time.
        add, view, vector = lengths.append, memoryview(self._memory), [self._memory]
        open_, read, close, room = os.open, os.readv, os.close, room - SMALL
        for name in self.names[self.position :]:
            if lengths and len(buffer) > room:
                break
            if not len(lengths) % _STRIDE and stop():
                raise Stopped
            # Three calls for each file (open, read, close); a stat for the size would be a fourth.
            descriptor = open_(name, _FILE, dir_fd=directory)
            try:
                length = read(descriptor, vector)
            except OSError as error:
                error.filename = name
                raise
            finally:
                close(descriptor)
            if length > SMALL:
                break
            buffer += view[:length]
            add(length)
        # A file that was too large is the next one: the caller reads it in another way, and skips
        # it.
        self.position += len(lengths)
        return lengths
