"""The blocks of a directory that are files of their own.

    <directory>/<first three digits>/<hash>     one block; its mtime is the time of its last put
    <directory>/tmp/                            blocks being written
    <directory>/trash/<hash>.<nanoseconds>      blocks moved to the bin at that time
    <directory>/damaged/<hash>                  damaged blocks, kept for inspection

A block is written to a temporary file, synced, renamed, and its folder synced before it is
acknowledged: it exists whole or not at all, also after kill -9 or a power cut. An intact block is
never written again; a damaged one is replaced. Temporary files of dead writers are removed when the
volume is opened; a live writer holds a lock on its file.

Every change of the blocks of a folder, or of the times of their last puts, holds the lock of the
folder. So no process moves a block to the bin that another process has just put again.

Each volume has its own threads, so that a disk that hangs does not block other volumes.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from lading.blobs.block_files import LARGE, Bypass, FileDraft, ReadBefore, read_past_cache
from lading.blobs.volume import Buffer, Discarded, Loan, Space, Stored
from lading.client.caches.disk_space import spread_directories
from lading.core.errors import Conflict, Corrupt, Full, NotFound, Unavailable

# Digits of a folder's name: 4096 folders.
_PREFIX = 3
# Bytes read and hashed or compared at a time.
_STEP = 1 << 20
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
RESERVE: Final = 64 << 20
"""Bytes of each disk that stay free."""
# Threads per volume, so many operations at a time.
_THREADS = 8
PATIENCE: Final = 120.0
"""Seconds after which an operation counts as failed; its thread may hang on."""
# The name of a block's file is its MD5.
_HASH: Final = re.compile(r"[0-9a-f]{32}")
# In the trash, the time of the deletion (nanoseconds) follows.
_BINNED: Final = re.compile(r"([0-9a-f]{32})\.([0-9]{1,20})")
_Answer = TypeVar("_Answer")


class SingleFiles:
    """Blocks as files below a directory, which is created if missing.

    `reserve` bytes and `reserve_files` inodes of its disk stay free.
    """

    def __init__(
        self,
        directory: Path,
        *,
        reserve: int = RESERVE,
        reserve_files: int = 0,
        clock_ns: Callable[[], int] = time.time_ns,
        patience: float = PATIENCE,
    ) -> None:
        self._directory = directory
        self._reserve, self._reserve_files = reserve, reserve_files
        self._clock_ns = clock_ns
        self._patience = patience
        self._aside, self._bin, self._damaged = (
            directory / name for name in ("tmp", "trash", "damaged")
        )
        # Folders whose creation this process has synced.
        self._synced: set[str] = set()
        self._read_before = ReadBefore()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"volume {directory.name}")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        spread_directories(directory)
        for folder in (self._aside, self._bin, self._damaged):
            folder.mkdir(mode=0o700, exist_ok=True)
        _remove_leftovers(self._aside)
        found = directory.stat()
        self._device = f"directory {found.st_dev:x}-{found.st_ino:x}"

    @property
    def device(self) -> str:
        """Identity of the directory, independent of its path."""
        return self._device

    async def put(self, hash: str, data: Buffer) -> None:
        """Store a block; see BlockVolume."""
        await self._run(self._put, hash, data)

    async def get(self, hash: str, into: memoryview | None = None) -> Buffer:
        """The block; see BlockVolume."""
        # A large block into given memory: past the page cache if that is better (`direct_io`).
        if into is not None and len(into) >= LARGE:
            file = await self._run(self._bypass, hash, len(into))
            if file is None:
                return await self._run(self._get, hash, into)
            view = into[: file.size]
            if await read_past_cache(file, view, self._run) != hash:
                raise self.corrupt(hash)
            return view
        return await self._run(self._get, hash, into)

    async def lend(self, hash: str) -> Loan:
        """The open file of a block; see Lending."""
        return await self._run(self.lend_file, hash)

    async def head(self, hash: str) -> Stored:
        """Size and time of a block; see BlockVolume."""
        return await self._run(self.look_up, hash)

    def folders(self, prefix: str) -> list[str]:
        """The names of the folders with blocks whose hashes may begin with `prefix`, sorted. Runs
        in a thread.
        """
        if len(prefix) >= _PREFIX:
            return [prefix[:_PREFIX]]
        try:
            names = [path.name for path in self._directory.iterdir()]
        except FileNotFoundError as error:
            raise self._gone() from error
        return sorted(
            name
            for name in names
            if len(name) == _PREFIX and name.startswith(prefix) and name != "tmp"
        )

    def list_folder(self, name: str, prefix: str) -> list[Stored]:
        """The blocks in a folder by prefix, sorted by hash. Runs in a thread."""
        return _list_folder(self._directory / name, prefix)

    def find(self, hash: str) -> Stored | None:
        """Size and time of a block, or None. Runs in a thread."""
        try:
            state = self._path(hash).stat()
        except FileNotFoundError:
            return None
        return Stored(hash, state.st_size, state.st_mtime_ns)

    def look_up(self, hash: str) -> Stored:
        """Size and time of a block. Runs in a thread. Raises NotFound, Corrupt, Unavailable."""
        stored = self.find(hash)
        if stored is None:
            raise self.absent(hash)
        return stored

    def check_room(self, size: int) -> None:
        """Check that the disk has room for one more file of `size` bytes, and that the reserve of
        bytes and files stays free. Raises Full. Runs in a thread.
        """
        disk = self._disk()
        if self._free(disk) < size:
            reserved = f" beside the {self._reserve} that stay free" if self._reserve else ""
            raise Full(
                f"{self._directory}: no room for {size} bytes{reserved};"
                " free some space on this disk"
            )
        # f_files is 0 on file systems without a fixed number of inodes.
        if disk.f_files and disk.f_favail <= self._reserve_files:
            reserved = (
                f" beside the {self._reserve_files} that there stays room for"
                if self._reserve_files
                else ""
            )
            raise Full(
                f"{self._directory}: no room for one more file{reserved};"
                " remove some files from this disk"
            )

    def keep_discarded(self, hash: str, data: Buffer) -> Path:
        """Write a block to the bin, durably; its path. Runs in a thread."""
        target = self._bin / f"{hash}.{self._clock_ns()}"
        self._keep(target, data)
        return target

    def keep_damaged(self, hash: str, data: Buffer) -> Path:
        """Write a damaged block aside for inspection, durably; its path. Runs in a thread."""
        target = self._damaged / hash
        self._keep(target, data)
        return target

    def _keep(self, target: Path, data: Buffer) -> None:
        draft = FileDraft(self, self._aside)
        try:
            draft.append(memoryview(data))
            draft.finish_as(target)
        except BaseException:
            draft.remove()
            raise
        _sync_folder(target.parent)

    async def space(self) -> Space:
        """Total and free space; see BlockVolume."""
        return await self._run(self._space)

    async def begin(self, size: int) -> FileDraft:
        """A draft; see Drafting."""
        return await self._run(self._begin, size)

    async def touch(self, hash: str) -> None:
        """Set the time of the last put; see Bin."""
        await self._run(self._touch, hash)

    async def discard(self, hash: str, mtime_ns: int) -> None:
        """Move a block to the bin; see Bin."""
        await self._run(self._move_out, hash, mtime_ns, self._bin / f"{hash}.{self._clock_ns()}")

    async def restore(self, hash: str) -> None:
        """Restore a block; see Bin."""
        await self._run(self._restore, hash)

    async def discarded(self) -> AsyncGenerator[Discarded]:
        """All blocks in the bin; see Bin."""
        for block in await self._run(self._list_bin):
            yield block

    async def delete(self, hash: str, discarded_ns: int) -> None:
        """Delete a block from the bin; see Bin."""
        await self._run(self._delete, hash, discarded_ns)

    async def quarantine(self, hash: str, mtime_ns: int) -> None:
        """Take a damaged block out of use; see Bin."""
        await self._run(self._move_out, hash, mtime_ns, self._damaged / hash)

    async def close(self) -> None:
        """End the threads of the volume."""
        # A thread that hangs on a dead disk must not stop the server from ending.
        self._threads.shutdown(wait=False)

    async def run(self, work: Callable[..., _Answer], *arguments: object) -> _Answer:
        """Run a function in the threads of the volume. Raises Full or Unavailable on errors of the
        disk.
        """
        return await self._run(work, *arguments)

    def put_in_place(self, aside: Path, hash: str) -> None:
        """Rename a synced file in `tmp` to its block, durably. Runs in a thread."""
        folder = self._path(hash).parent
        self._make_folder(folder)
        with _locked(folder):
            aside.rename(folder / hash)
        _sync_folder(folder)

    async def _run(self, work: Callable[..., _Answer], *arguments: object) -> _Answer:
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.get_running_loop().run_in_executor(
                    self._threads, work, *arguments
                )
        except TimeoutError as error:
            raise Unavailable(
                f"{self._directory}: the disk has not answered for {self._patience:g} s"
            ) from error
        except FileNotFoundError as error:
            raise self._gone() from error
        except OSError as error:
            raise failure(error, self._directory) from error

    def _path(self, hash: str) -> Path:
        return self._directory / hash[:_PREFIX] / hash

    def _put(self, hash: str, data: Buffer) -> None:
        if self._refresh(hash, data):
            # Another writer may have renamed its file and not yet synced the folder.
            _sync_folder(self._path(hash).parent)
            return
        draft = self._begin(len(data))
        try:
            draft.append(memoryview(data))
            draft.finish(hash)
        except BaseException:
            draft.remove()
            raise

    def _begin(self, size: int) -> FileDraft:
        self.check_room(size)
        try:
            return FileDraft(self, self._aside, size=size)
        except FileNotFoundError as error:
            raise self._gone() from error

    def _refresh(self, hash: str, data: Buffer) -> bool:
        """Whether the block is stored and intact; if so, set the time of its last put to now."""
        path = self._path(hash)
        try:
            with path.open("rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                if status.st_size != len(data) or not _equal(file.readinto, memoryview(data)):
                    return False
                # Compared without the lock, which would block other writers of the folder.
                with _locked(path.parent):
                    # The block may have been moved to the bin or replaced in between.
                    if path.stat().st_ino != status.st_ino:
                        return False
                    self._mark(path)
        except FileNotFoundError:
            return False
        return True

    def _touch(self, hash: str) -> None:
        path = self._path(hash)
        try:
            with _locked(path.parent):
                self._mark(path)
        except FileNotFoundError as error:
            raise self.absent(hash) from error

    def _mark(self, path: Path) -> None:
        now = self._clock_ns()
        os.utime(path, ns=(now, now))

    def _move_out(self, hash: str, mtime_ns: int, target: Path) -> None:
        path = self._path(hash)
        try:
            with _locked(path.parent):
                # A new put changes the time: then the block is in use again.
                if path.stat().st_mtime_ns != mtime_ns:
                    raise Conflict(f"{hash}: was put again; list it again")
                path.rename(target)
        except FileNotFoundError as error:
            raise self.absent(hash) from error

    def _restore(self, hash: str) -> None:
        path = self._path(hash)
        # The latest first; the names end with the time of discarding.
        for aside in sorted(self._bin.glob(f"{hash}.*"), reverse=True):
            self._make_folder(path.parent)
            # FileNotFoundError: another process restored it.
            with suppress(FileNotFoundError), _locked(path.parent):
                self._mark(aside)
                aside.rename(path)
                _sync_folder(path.parent)
                return
        raise NotFound(f"{hash}: not in the trash of {self._directory}")

    def _delete(self, hash: str, discarded_ns: int) -> None:
        try:
            (self._bin / f"{hash}.{discarded_ns}").unlink()
        except FileNotFoundError as error:
            raise NotFound(f"{hash}: not in the trash of {self._directory}") from error

    def _list_bin(self) -> list[Discarded]:
        blocks = []
        try:
            with os.scandir(self._bin) as entries:
                for entry in entries:
                    match = _BINNED.fullmatch(entry.name)
                    # Another server that empties the same trash was faster.
                    with suppress(FileNotFoundError):
                        if match:
                            blocks.append(Discarded(match[1], entry.stat().st_size, int(match[2])))
        except FileNotFoundError as error:
            raise self._gone() from error
        return sorted(blocks, key=lambda block: (block.hash, block.discarded_ns))

    def _make_folder(self, folder: Path) -> None:
        if folder.name not in self._synced:
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            # Also if the folder exists: its creator may not have synced it yet.
            _sync_folder(self._directory)
            self._synced.add(folder.name)

    def _get(self, hash: str, into: memoryview | None) -> Buffer:
        path = self._path(hash)
        try:
            with path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if into is not None and size > len(into):
                    raise NotFound(f"{hash}: has {size} bytes, not {len(into)}")
                if size > _STEP:
                    # Read ahead while the first bytes are hashed: the block is rarely in the page
                    # cache.
                    os.posix_fadvise(file.fileno(), 0, size, os.POSIX_FADV_WILLNEED)
                view = memoryview(bytearray(size)) if into is None else into[:size]
                digest = _read_all(file.readinto, view)
        except FileNotFoundError as error:
            raise self.absent(hash) from error
        if digest != hash:
            raise self.corrupt(hash)
        return view

    def lend_file(self, hash: str) -> Loan:
        """The open file of a block. Runs in a thread."""
        try:
            return Loan(self._path(hash))
        except FileNotFoundError as error:
            raise self.absent(hash) from error

    def _bypass(self, hash: str, room: int) -> Bypass | None:
        """The file of a large block if direct I/O is better for it, else None."""
        try:
            file = Bypass(self._path(hash))
        except OSError:
            # Also without support for direct I/O; other errors will occur again in `_get`.
            return None
        return (
            None
            if not LARGE <= file.size <= room or self._read_before.add(hash) or file.is_cached()
            else file
        )

    def corrupt(self, hash: str) -> Corrupt:
        """The error for a damaged block."""
        return Corrupt(
            f"{hash}: what is kept in {self._directory} does not match the hash:"
            " the block is damaged"
        )

    def absent(self, hash: str) -> NotFound | Corrupt | Unavailable:
        """The error for a block that is not stored. Runs in a thread."""
        # An unmounted disk must not look like lost data.
        if not self._aside.is_dir():
            return self._gone()
        if (self._damaged / hash).exists():
            return Corrupt(
                f"{hash}: was found damaged in {self._directory} and has been taken out of use"
            )
        return NotFound(f"{hash}: no such block")

    def _gone(self) -> Unavailable:
        return Unavailable(f"{self._directory}: the volume has gone; is its disk mounted?")

    def _space(self) -> Space:
        disk = self._disk()
        return Space(disk.f_blocks * disk.f_frsize, self._free(disk))

    def _disk(self) -> os.statvfs_result:
        try:
            return os.statvfs(self._directory)
        except FileNotFoundError as error:
            raise self._gone() from error

    def _free(self, disk: os.statvfs_result) -> int:
        return max(0, disk.f_bavail * disk.f_frsize - self._reserve)


def failure(error: OSError, where: Path) -> Full | Unavailable:
    """The error for an OSError of a disk."""
    if error.errno in _NO_ROOM:
        return Full(f"{where}: no room is left on the disk; free some space")
    return Unavailable(f"{where}: the volume failed: {error.strerror}")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    # A lock of the folder itself: no further file is needed, and it ends with the process.
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_all(read: Callable[[memoryview], int | None], view: memoryview) -> str:
    """Fill `view` from the file; return the MD5 of the read bytes, computed while they are in the
    CPU cache.
    """
    digest, done = hashlib.md5(usedforsecurity=False), 0
    while done < len(view):
        count = read(view[done : done + _STEP])
        if not count:
            break
        digest.update(view[done : done + count])
        done += count
    return digest.hexdigest()


def _equal(read: Callable[[memoryview], int | None], data: memoryview) -> bool:
    """Whether the file has exactly the bytes `data`."""
    # A bytearray compares with a view at the speed of memory; other pairs compare byte by byte.
    piece, done = bytearray(_STEP), 0
    with memoryview(piece) as window:
        while done < len(data):
            count = read(window[: min(_STEP, len(data) - done)])
            if not count or not _same(piece, data[done : done + count]):
                return False
            done += count
    return True


def _same(piece: bytearray, expected: memoryview) -> bool:
    return (piece if len(piece) == len(expected) else piece[: len(expected)]) == expected


def _list_folder(folder: Path, prefix: str) -> list[Stored]:
    blocks = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if _HASH.fullmatch(entry.name) and entry.name.startswith(prefix):
                    # The collector may have moved it to the trash since the directory was read.
                    with suppress(FileNotFoundError):
                        state = entry.stat()
                        blocks.append(Stored(entry.name, state.st_size, state.st_mtime_ns))
    except FileNotFoundError:
        return []
    return sorted(blocks, key=lambda stored: stored.hash)


def _remove_leftovers(folder: Path) -> None:
    for path in folder.iterdir():
        with suppress(FileNotFoundError), path.open("rb") as file:
            try:
                # Writers hold a lock while they live.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            path.unlink()
