"""Where blocks are kept: the protocol, and the volume that is a directory.

    <directory>/<first three digits>/<hash>     one block
    <directory>/tmp/                            blocks being written

A block is written aside, synced, renamed into its place, and its directory synced, before it is acknowledged: it is
there whole or not at all, also after kill -9 or a power cut. What is there and intact is never written again; what is
there and damaged is replaced. Leftovers of writers that died are removed when the volume is opened: a living writer
holds a lock on its file.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lading.core.errors import Corrupt, Full, NotFound, Unavailable

_PREFIX = 3
_HASH_LENGTH = 32
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_RESERVE = 64 << 20


@dataclass(frozen=True, slots=True)
class Stored:
    """One block in a volume: hash, size in bytes, time of its last put in Unix nanoseconds."""

    hash: str
    size: int
    mtime_ns: int


class Volume(Protocol):
    """Keeps blocks by hash. Acknowledged means durable; what is read has been verified."""

    async def put(self, hash: str, data: bytes | bytearray) -> None:
        """Keep a block whose hash the caller has checked; a block that is there counts as put now.

        Raises Full, Unavailable.
        """

    async def get(self, hash: str) -> bytes:
        """The block. Raises NotFound, Corrupt when what is kept does not match the hash, Unavailable."""

    async def head(self, hash: str) -> Stored:
        """What is known of a block without reading it. Raises NotFound, Unavailable."""

    def index(self, prefix: str = "") -> AsyncIterator[Stored]:
        """Every block whose hash begins with `prefix`, sorted by hash. Raises Unavailable."""

    async def free(self) -> int:
        """Bytes that can still be kept. Raises Unavailable."""


class DirectoryVolume:
    """Blocks as files below a directory, which is made when absent; `reserve` bytes of its disk stay free."""

    def __init__(self, directory: Path, *, reserve: int = _RESERVE) -> None:
        self._directory = directory
        self._reserve = reserve
        self._aside = directory / "tmp"
        self._synced: set[str] = set()
        self._aside.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_leftovers(self._aside)

    async def put(self, hash: str, data: bytes | bytearray) -> None:
        """Keep a block; see Volume."""
        await asyncio.to_thread(self._put, hash, data)

    async def get(self, hash: str) -> bytes:
        """The block; see Volume."""
        return await asyncio.to_thread(self._get, hash)

    async def head(self, hash: str) -> Stored:
        """What is known of a block; see Volume."""
        try:
            found = await asyncio.to_thread(self._path(hash).stat)
        except FileNotFoundError as error:
            raise self._absent(hash) from error
        except OSError as error:
            raise _failure(error, self._directory) from error
        return Stored(hash, found.st_size, found.st_mtime_ns)

    async def index(self, prefix: str = "") -> AsyncGenerator[Stored]:
        """Blocks by prefix; see Volume."""
        for name in await asyncio.to_thread(self._folders, prefix):
            for stored in await asyncio.to_thread(_list_folder, self._directory / name, prefix):
                yield stored

    async def free(self) -> int:
        """Bytes that can still be kept; see Volume."""
        return await asyncio.to_thread(self._free)

    def _path(self, hash: str) -> Path:
        return self._directory / hash[:_PREFIX] / hash

    def _put(self, hash: str, data: bytes | bytearray) -> None:
        path = self._path(hash)
        try:
            if not _refresh(path, data):
                if self._free() < len(data):
                    raise Full(f"{self._directory}: no room for {len(data)} bytes; free some space on this disk")
                self._make_folder(path.parent)
                self._write(path, data)
            # Also when another writer has put it there: it may not have come to this yet.
            _sync_folder(path.parent)
        except OSError as error:
            raise _failure(error, self._directory) from error

    def _write(self, path: Path, data: bytes | bytearray) -> None:
        descriptor, aside = tempfile.mkstemp(dir=self._aside)
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
                os.fdatasync(file.fileno())
                Path(aside).rename(path)
        except BaseException:
            with suppress(FileNotFoundError):
                Path(aside).unlink()
            raise

    def _make_folder(self, folder: Path) -> None:
        if folder.name not in self._synced:
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            # Also when it was there: its maker may not have come to this yet.
            _sync_folder(self._directory)
            self._synced.add(folder.name)

    def _get(self, hash: str) -> bytes:
        try:
            data = self._path(hash).read_bytes()
        except FileNotFoundError as error:
            raise self._absent(hash) from error
        except OSError as error:
            raise _failure(error, self._directory) from error
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != hash:
            raise Corrupt(f"{hash}: the {len(data)} bytes kept at {self._path(hash)} do not match the hash")
        return data

    def _absent(self, hash: str) -> NotFound | Unavailable:
        # A disk that is not mounted must not look like lost data.
        if self._aside.is_dir():
            return NotFound(f"{hash}: no such block")
        return Unavailable(f"{self._directory}: the volume has gone; is its disk mounted?")

    def _folders(self, prefix: str) -> list[str]:
        if len(prefix) >= _PREFIX:
            return [prefix[:_PREFIX]]
        try:
            names = [path.name for path in self._directory.iterdir()]
        except OSError as error:
            raise _failure(error, self._directory) from error
        return sorted(name for name in names if len(name) == _PREFIX and name.startswith(prefix) and name != "tmp")

    def _free(self) -> int:
        try:
            disk = os.statvfs(self._directory)
        except OSError as error:
            raise _failure(error, self._directory) from error
        return max(0, disk.f_bavail * disk.f_frsize - self._reserve)


def _refresh(path: Path, data: bytes | bytearray) -> bool:
    """Whether the block is there and intact; if so its time of last put becomes now."""
    try:
        if path.stat().st_size != len(data) or path.read_bytes() != data:
            return False
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _list_folder(folder: Path, prefix: str) -> list[Stored]:
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(entry.name) == _HASH_LENGTH and entry.name.startswith(prefix):
                    state = entry.stat()
                    found.append(Stored(entry.name, state.st_size, state.st_mtime_ns))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _failure(error, folder) from error
    return sorted(found, key=lambda stored: stored.hash)


def _remove_leftovers(folder: Path) -> None:
    for path in folder.iterdir():
        with suppress(FileNotFoundError), path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            path.unlink()


def _failure(error: OSError, where: Path) -> Full | Unavailable:
    if error.errno in _NO_ROOM:
        return Full(f"{where}: no room is left on the disk; free some space")
    return Unavailable(f"{where}: the volume failed: {error.strerror}")
