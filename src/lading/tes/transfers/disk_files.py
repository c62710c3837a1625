"""Files and directories below a root of the server's machine, as inputs and as outputs.

They are opened by `process.confined`: element by element, no link followed. The writers of these
directories are not trusted. The validator of a file is its inode, size and times. An output is
written under a temporary name, synced and renamed; missing directories are made. If the server runs
as root, a new file or directory gets the owner of its parent directory.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from lading.core.data import filetree
from lading.core.errors import Invalid, LadingError, NotFound, TooLarge
from lading.core.tes.file_roots import FileRoot
from lading.core.tes.transfers import ObjectFacts
from lading.process.cancellation import Stop
from lading.process.concurrency import in_thread
from lading.process.confined import ConfinedTree, open_directory
from lading.tes.transfers.endpoints import ObjectSource, OpenObject, OutgoingFile, SourceListing

_PIECE: Final = 1 << 18
_MAX_DEPTH: Final = 100
MAX_FILES: Final = 100_000
"""Files of one directory that is an input."""

# All users may read delivered files; only the server's user may change them.
_DIRECTORY_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Bytes of the beginning of a name in a temporary name: a name has at most 255.
_BEGINNING: Final = 100


class FileSource:
    """Implements ObjectSource for the file `path` below a root."""

    def __init__(self, root: FileRoot, path: str) -> None:
        self._root = root
        self._path = path
        self.name = f"file://{root.prefix}/{path}"

    @asynccontextmanager
    async def open(self, start: int, previous: ObjectFacts | None) -> AsyncGenerator[OpenObject]:
        """Read the file; see ObjectSource."""
        try:
            descriptor = await asyncio.to_thread(self._open)
        except OSError as error:
            raise failure(self.name, error) from error
        try:
            facts = _facts(os.fstat(descriptor))
            begin = start if previous is not None and previous.validator == facts.validator else 0
            yield OpenObject(facts=facts, start=begin, pieces=self._pieces(descriptor, begin))
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        with ConfinedTree.open(self._root.directory) as tree:
            return tree.open_file(self._path)

    async def _pieces(self, descriptor: int, start: int) -> AsyncIterator[bytes]:
        at = start
        while True:
            try:
                piece = await asyncio.to_thread(os.pread, descriptor, _PIECE, at)
            except OSError as error:
                raise failure(self.name, error) from error
            if not piece:
                return
            at += len(piece)
            yield piece


async def list_directory(root: FileRoot, path: str) -> SourceListing:
    """The files below a directory; links and special files are left out. Raises NotFound, Invalid,
    TooLarge.
    """
    name = f"file://{root.prefix}/{path}"
    try:
        tree = await asyncio.to_thread(ConfinedTree.open, root.directory)
        try:
            walked = await in_thread(
                lambda stop, own: _walk(own[0], path, name, stop), tree.descriptor
            )
        finally:
            tree.close()
    except OSError as error:
        raise failure(name, error) from error
    files, directories, validator = walked
    sources: dict[str, ObjectSource] = {
        name: FileSource(root, f"{path}/{name}".strip("/")) for name in files
    }
    return SourceListing(files=sources, directories=directories, validator=validator)


def _walk(
    descriptor: int, path: str, name: str, stop: Stop
) -> tuple[list[str], tuple[str, ...], str]:
    files: list[str] = []
    directories: list[str] = []
    facts: list[str] = []
    with ConfinedTree(os.dup(descriptor)) as top, top.open_tree(path) as tree:
        for folder, entry in tree.walk(max_depth=_MAX_DEPTH, stop=stop):
            below = f"{folder}/{entry.name}" if folder else entry.name
            filetree.check_path(below)
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                directories.append(below)
                facts.append(below)
            elif stat.S_ISREG(status.st_mode):
                files.append(below)
                facts.append(f"{below}\0{_validator(status)}")
            if len(facts) > MAX_FILES:
                raise TooLarge(f"{name}: has more than {MAX_FILES} files and directories")
    text = "\n".join(sorted(facts)).encode("utf-8", "surrogateescape")
    return files, tuple(directories), hashlib.sha256(text).hexdigest()


def is_directory(root: FileRoot, path: str) -> bool:
    """Whether a path below a root is a directory. Raises NotFound, Invalid; it may block."""
    try:
        with ConfinedTree.open(root.directory) as tree:
            return stat.S_ISDIR(tree.stat(path).st_mode)
    except OSError as error:
        raise failure(f"file://{root.prefix}/{path}", error) from error


def failure(name: str, error: OSError) -> LadingError:
    """The error for a file that cannot be used."""
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{name}: there is no such file or directory")
    if isinstance(error, NotADirectoryError) or error.errno == errno.ELOOP:
        return Invalid(f"{name}: is no plain file or directory, or lies behind a symbolic link")
    return Invalid(f"{name}: {error.strerror or error}")


def _facts(status: os.stat_result) -> ObjectFacts:
    validator = _validator(status)
    return ObjectFacts(size=status.st_size, validator=validator, etag=validator)


def _validator(status: os.stat_result) -> str:
    times = f"{status.st_mtime_ns}.{status.st_ctime_ns}"
    return f"{status.st_dev}.{status.st_ino}.{status.st_size}.{times}"


class DiskTarget:
    """Implements FileTarget for the file `path` below a root."""

    def __init__(self, root: FileRoot, path: str) -> None:
        self._root = root
        self._path = path
        self._name = f"file://{root.prefix}/{path}"

    async def send(self, file: OutgoingFile) -> str:
        """Write the file; see FileTarget."""
        above, _, name = self._path.rpartition("/")
        try:
            folder = await asyncio.to_thread(make_directories, self._root, above)
            try:
                return await self._write(folder, name, file)
            finally:
                os.close(folder)
        except OSError as error:
            raise failure(self._name, error) from error

    async def _write(self, folder: int, name: str, file: OutgoingFile) -> str:
        digest = hashlib.sha256()
        mark = hashlib.sha256(file.key.encode()).hexdigest()[:16]
        # The same in every attempt: what an earlier one left is replaced.
        temporary = f".{os.fsdecode(os.fsencode(name)[:_BEGINNING])}.lading-{mark}"
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        descriptor = os.open(temporary, _NEW, _FILE_MODE, dir_fd=folder)
        try:
            _give(descriptor, folder)
            async for piece in file.pieces():
                digest.update(piece)
                await asyncio.to_thread(_write_all, descriptor, piece)
            await asyncio.to_thread(os.fsync, descriptor)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            await asyncio.to_thread(os.fsync, folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        finally:
            os.close(descriptor)
        return f"sha256:{digest.hexdigest()}"


def make_directories(root: FileRoot, path: str) -> int:
    """A descriptor of a directory below a root, made with those above it where they are missing.
    May block. Raises OSError.
    """
    with ConfinedTree.open(root.directory) as top:
        directory = os.dup(top.descriptor)
    try:
        for name in [element for element in path.split("/") if element]:
            made = False
            with suppress(FileExistsError):
                os.mkdir(name, _DIRECTORY_MODE, dir_fd=directory)
                made = True
            below = open_directory(name, directory)
            if made:
                _give(below.descriptor, directory)
            os.close(directory)
            directory = below.descriptor
    except BaseException:
        os.close(directory)
        raise
    return directory


def _give(descriptor: int, folder: int) -> None:
    """Give what this process has made to the owner of its directory."""
    if os.geteuid() == 0 and os.fstat(descriptor).st_uid == 0:
        found = os.fstat(folder)
        os.fchown(descriptor, found.st_uid, found.st_gid)


def _write_all(descriptor: int, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(descriptor, view) :]
