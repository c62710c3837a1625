"""A cache on disk: entries by key, which any number of processes build, share and evict.

    <directory>/<key>         an entry, a file or a directory, always whole
    <directory>/<key>.part    an entry that a process is building or removing
    <directory>/<key>.lock    the lock of an entry; its time of change is the time of the last use
    <directory>/ledger        bytes of all entries, as text (`CacheLayout.has_ledger`)

An entry is built beside its place under an exclusive lock (flock) and renamed. A shared lock keeps
it from eviction. Locks die with their process: after any kill the next process finds a whole entry
or none, and removes the part. When the limit is passed, the entries that were not used for longest
go; entries in use never do.

Caches of files may do without lock files (`CacheLayout`): then the part is locked while it is
written, and an open descriptor is enough to continue reading an entry that is evicted.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import math
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from enum import Enum, auto
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from lading.client.caches.entry_files import (
    CacheLayout,
    LockState,
    boot_id,
    is_full,
    is_same,
    read_total,
    remove_part,
    sync,
    sync_one,
    try_lock,
    unlink,
    write_total,
)
from lading.client.retry import Sleep
from lading.core.errors import Unavailable
from lading.process import removal, tree_removal
from lading.process.concurrency import in_thread

# Bytes of a page of the kernel's page cache on x86-64 and most arm64 kernels.
PAGE: Final = 4096
# Seconds between attempts to get a lock; a thread that waits for one could not be cancelled.
_POLL: Final = 0.02
# Eviction to take room frees a 16th of the limit more, so that not every write needs a survey.
_SLACK: Final = 16
# An entry that is gone as often as this right after it was built is not built again.
_MOST_BUILDS: Final = 5
_PART, _LOCK, _LEDGER = ".part", ".lock", "ledger"
_Entry = tuple[float, int, Callable[[], bool]]
"""Last use in Unix seconds, size, and a function that removes the entry unless it is in use."""
_logger = logging.getLogger("lading.client")
Build = Callable[["EntryClaim"], Awaitable[None]]
"""Makes an entry at `EntryClaim.part`, and publishes it."""


class Durability(Enum):
    """Trust in an entry after the machine went down without a shutdown."""

    UNSYNCED = auto()
    """Nothing is synced: the user of the cache verifies an entry before it relies on it."""
    BOOT = auto()
    """Nothing is synced: an entry from before the last start of the machine counts as absent."""
    SYNCED = auto()
    """An entry is synced before it is published."""


class DiskCache:
    """The cache below `directory`, of at most `limit`, in bytes or in the unit of `weigh`.

    `weigh` gives the size of the entry at a path in a cache with lock files; the default is the
    size given to `EntryClaim.publish`. `is_whole` checks an entry that is at its place. `aside` is
    a directory on the same file system for trees whose removal takes long (`process.removal`).
    """

    def __init__(
        self,
        directory: Path,
        limit: int,
        *,
        layout: CacheLayout,
        durability: Durability = Durability.UNSYNCED,
        weigh: Callable[[Path], int] | None = None,
        is_whole: Callable[[str], bool] | None = None,
        aside: Path | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.directory = directory
        self._limit = limit
        self._layout = layout
        self._durability = durability
        self._weigh = weigh
        self._is_whole = is_whole
        self._aside = aside
        self._sleep = sleep
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def path(self, key: str) -> Path:
        """The place of an entry."""
        folder = self.directory / key[: self._layout.fan_out]
        return folder / f"{key}{self._layout.suffix}"

    def part(self, key: str) -> Path:
        """The place where an entry is built."""
        path = self.path(key)
        return path.with_name(path.name + _PART)

    # Finding.

    def holds(self, key: str) -> bool:
        """Whether the entry is there now, and whole."""
        if not self.path(key).exists():
            return False
        if self._durability is Durability.BOOT:
            state = self._state(key)
            return state is not None and state.boot == boot_id()
        return self._is_whole is None or self._is_whole(key)

    def hold(self, key: str) -> int | None:
        """A descriptor that keeps the entry while it is open; None when the entry is not there.

        Without lock files it is a descriptor of the entry itself. Raises OSError.
        """
        place = self._lock_path(key) if self._layout.lock else self.path(key)
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            if self._layout.lock and not self._share(key, descriptor):
                os.close(descriptor)
                return None
            with suppress(OSError):
                os.utime(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def touch(self, key: str) -> None:
        """Note a use of an entry, if it is there."""
        with suppress(OSError):
            os.utime(self._lock_path(key) if self._layout.lock else self.path(key))

    # Building.

    async def acquire(self, key: str, build: Build) -> int:
        """Variant of `hold` that calls `build` to make and publish an absent entry.

        For caches with lock files. Raises the errors of `build`, and Unavailable when the entry is
        gone again and again as soon as it was built.
        """
        turn = self._turns.setdefault(key, asyncio.Lock())
        builds = 0
        async with turn:
            while builds < _MOST_BUILDS:
                descriptor = self.hold(key)
                if descriptor is not None:
                    return descriptor
                claim = await self.claim(key)
                if claim is None:
                    continue
                builds += 1
                descriptor = await _build(claim, build)
                if descriptor is not None:
                    return descriptor
        raise Unavailable(
            f"{self.path(key)}: is gone as soon as it was made; make the cache larger"
        )

    async def claim(self, key: str) -> EntryClaim | None:
        """The right to build an entry, once no other process has it; None when it was built
        meanwhile.
        """
        while (descriptor := self.lock(key, wait=False)) is None:
            await self._sleep(_POLL)
            if self.holds(key):
                return None
        return self._claimed(key, descriptor)

    def wait_for_claim(self, key: str) -> EntryClaim | None:
        """Blocking variant of `claim`."""
        descriptor = self.lock(key, wait=True)
        assert descriptor is not None
        return self._claimed(key, descriptor)

    def lock(self, key: str, *, wait: bool) -> int | None:
        """A descriptor with the exclusive lock of a key, with or without an entry; None when
        another process has the lock, unless `wait`. Raises OSError.
        """
        path = self._lock_path(key)
        while True:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if wait:
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                elif not try_lock(descriptor, fcntl.LOCK_EX):
                    os.close(descriptor)
                    return None
                if is_same(path, descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            # The former holder of the lock has renamed or removed the file since.
            os.close(descriptor)

    def publish(self, key: str) -> None:
        """Rename the part of an entry to its place. Raises OSError."""
        part, path = self.part(key), self.path(key)
        if self._durability is Durability.SYNCED:
            sync(part)
        part.rename(path)
        if self._durability is Durability.SYNCED:
            sync_one(path.parent)

    # Removing.

    def remove(self, key: str) -> bool:
        """Remove an entry unless it is in use; whether it is gone."""
        if not self._layout.lock:
            with self._ledger() as ledger:
                self._drop(self.path(key), ledger)
            return True
        descriptor = None
        try:
            descriptor = self.lock(key, wait=False)
            if descriptor is None:
                return False
            self._clear(key, descriptor)
            self._lock_path(key).unlink(missing_ok=True)
        except OSError as error:
            # One that can neither be removed nor moved does not keep the others.
            _logger.warning("%s: cannot be removed: %s", self.path(key), error)
            return False
        finally:
            if descriptor is not None:
                os.close(descriptor)
        return True

    def evict(self, *, unused_since: float = 0.0, spare_since: float = math.inf) -> int:
        """Remove the least recently used entries until the rest fits; return the number removed.

        Entries not used since `unused_since` are removed in any case, entries used since
        `spare_since` in none (both in Unix seconds). Blocks for the time of the removals.
        """
        return self._shrink(0, unused_since, spare_since)[1]

    def admit(self, size: int) -> None:
        """Count an entry of `size` right after its publication, and evict others where the limit is
        passed. For caches with lock files and a ledger. Blocks for the time of the removals.
        """
        with self._ledger() as ledger:
            total = read_total(ledger)
            if total is not None and total + size <= self._limit:
                write_total(ledger, total + size)
            else:
                # A survey counts this entry, those of killed processes, and those that others are
                # about to admit, which count twice then. One byte more, for the slack.
                write_total(ledger, self._shrink(1)[0])

    def _shrink(
        self, needed: int, unused_since: float = 0.0, spare_since: float = math.inf
    ) -> tuple[int, int]:
        """Evict until `needed` bytes fit too; return the remaining size, and the number of
        evicted entries."""
        (total, entries), goal = self._survey(), self._limit
        if needed and total + needed > self._limit:
            goal = max(self._limit - self._limit // _SLACK - needed, 0)
        gone = 0
        for used, size, remove in sorted(entries, key=itemgetter(0)):
            if (total <= goal and used >= unused_since) or used >= spare_since:
                break
            if remove():
                total, gone = total - size, gone + 1
        return total, gone

    def _survey(self) -> tuple[int, list[_Entry]]:
        """Size of everything, and the entries that may be evicted."""
        total, entries = 0, list[_Entry]()
        keys = self._keys() if self._layout.lock else ()
        entries += [
            (self._last_use(key), self._size(key), partial(self.remove, key)) for key in keys
        ]
        for file in () if self._layout.lock else self._files():
            with suppress(FileNotFoundError):
                state, is_part = file.stat(), file.name.endswith(_PART)
                used, size = state.st_mtime_ns / 1e9, self._measure(state.st_size)
                if not is_part or self._layout.keeps_parts:
                    entries.append((used, size, partial(remove_part if is_part else unlink, file)))
                elif not remove_part(file):
                    total += size
        return total + sum(size for _, size, _ in entries), entries

    def _files(self) -> set[Path]:
        pattern = self._layout.pattern
        return {file for end in ("", _PART) for file in self.directory.glob(pattern + end)}

    def _keys(self) -> set[str]:
        ends = (self._layout.suffix + _PART, _LOCK, self._layout.suffix)
        names = {file.name for file in self.directory.glob(self._layout.pattern)}
        return {
            name.removesuffix(next((end for end in ends if name.endswith(end)), ""))
            for name in names
            if not name.startswith(".")
        }

    def _last_use(self, key: str) -> float:
        """Unix seconds; 0 for an entry without a lock file."""
        try:
            return self._lock_path(key).stat().st_mtime_ns / 1e9
        except (FileNotFoundError, NotADirectoryError):
            return 0.0

    def _size(self, key: str) -> int:
        if self._weigh is not None:
            return self._weigh(self.path(key))
        return state.bytes if (state := self._state(key)) is not None else 0

    def _measure(self, size: int) -> int:
        """Room of a file. A file without a size has not got its room yet."""
        page = self._layout.page
        return (size + page - 1) // page * page + page if page and size else size

    # Claims.

    def _lock_path(self, key: str) -> Path:
        return (
            self.directory / self._layout.lock.format(key) if self._layout.lock else self.part(key)
        )

    def _state(self, key: str) -> LockState | None:
        try:
            return msgspec.json.decode(self._lock_path(key).read_bytes(), type=LockState)
        except (OSError, msgspec.DecodeError):
            return None

    def _share(self, key: str, descriptor: int) -> bool:
        """Take the shared lock of a whole entry without waiting."""
        return (
            try_lock(descriptor, fcntl.LOCK_SH)
            and self.holds(key)
            and is_same(self._lock_path(key), descriptor)
        )

    def _claimed(self, key: str, descriptor: int) -> EntryClaim | None:
        claim = EntryClaim(self, key, descriptor)
        if not self.holds(key):
            return claim
        claim.close()
        return None

    def _clear(self, key: str, descriptor: int) -> None:
        """Remove entry and part, under the exclusive lock. Raises OSError."""
        if self._durability is Durability.BOOT:
            os.ftruncate(descriptor, 0)
        part = self.part(key)
        self._discard(part)
        # Renamed first: a process that is killed while it removes leaves a part and no half entry.
        with suppress(FileNotFoundError):
            self.path(key).rename(part)
            self._discard(part)

    def _discard(self, path: Path) -> None:
        if self._aside is None:
            tree_removal.remove(path)
        else:
            removal.discard(path, aside=self._aside)

    def _abandon(self, key: str, descriptor: int) -> None:
        """Remove an entry that will not be complete, and give its room back."""
        unfinished = self.part(key)
        if self._layout.lock:
            if not self.holds(key):
                self._discard(unfinished)
                self._lock_path(key).unlink(missing_ok=True)
        elif not self._layout.keeps_parts or self.holds(key):
            with suppress(OSError):
                if is_same(unfinished, descriptor):
                    with self._ledger() as ledger:
                        self._drop(unfinished, ledger)

    # Room.

    @contextmanager
    def _ledger(self) -> Iterator[int]:
        """A descriptor of the ledger, locked; -1 in a cache without one."""
        if not self._layout.has_ledger:
            yield -1
            return
        place = self.directory / _LEDGER
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _reserve(self, descriptor: int, size: int) -> bool:
        needed = self._measure(size)
        if needed > self._limit:
            return False
        try:
            with self._ledger() as ledger:
                total = read_total(ledger)
                if total is None or total + needed > self._limit:
                    total, _ = self._shrink(needed)
                if total + needed > self._limit:
                    return False
                os.ftruncate(descriptor, size)
                write_total(ledger, total + needed)
        except OSError as error:
            if not is_full(error):
                raise
            return False
        return True

    def _drop(self, path: Path, ledger: int) -> None:
        with suppress(FileNotFoundError):
            size = self._measure(path.stat().st_size)
            path.unlink()
            total = read_total(ledger) if ledger >= 0 else None
            if total is not None:
                write_total(ledger, max(total - size, 0))


class EntryClaim(AbstractContextManager["EntryClaim"]):
    """The right to build one entry; a context manager.

    An entry not published when the context ends is removed, or kept as a part (`keeps_parts`).
    """

    def __init__(self, cache: DiskCache, key: str, descriptor: int) -> None:
        self.descriptor = descriptor
        """The locked file: the part itself in a cache without lock files."""
        self._cache = cache
        self._key = key
        self._is_published = False

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def part(self) -> Path:
        """The place to build the entry at."""
        return self._cache.part(self._key)

    def start_over(self) -> None:
        """Remove the part, and an entry that is not whole. Raises OSError."""
        os.ftruncate(self.descriptor, 0)
        self._cache._clear(self._key, self.descriptor)

    def reserve(self, size: int) -> bool:
        """Take room for `size` bytes and give the part that size, evicting others; False when there
        is no room. Blocks. Raises OSError.
        """
        return self._cache._reserve(self.descriptor, size)

    def publish(self, size: int = 0) -> None:
        """Rename the part to its place; `size` is its bytes with a lock file. Raises OSError."""
        self._cache.publish(self._key)
        self._is_published = True
        if self._cache._layout.lock:
            state = LockState(bytes=size, boot=boot_id())
            os.pwrite(self.descriptor, msgspec.json.encode(state), 0)

    def share(self) -> int | None:
        """Hold an entry right after publishing it; None when it was evicted already. See
        `DiskCache.hold`.
        """
        if not self._cache._share(self._key, self.descriptor):
            return None
        return self.detach()

    def detach(self) -> int:
        """The descriptor, which the caller closes; unlocked where it is the entry's own."""
        if not self._cache._layout.lock:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        descriptor, self.descriptor = self.descriptor, -1
        return descriptor

    def close(self) -> None:
        """Let the claim go."""
        if self.descriptor < 0:
            return
        try:
            # No other process may build before the part is gone: the lock is released right after.
            if not self._is_published:
                self._cache._abandon(self._key, self.descriptor)
        finally:
            os.close(self.descriptor)
            self.descriptor = -1


async def _build(claim: EntryClaim, build: Build) -> int | None:
    with claim:
        # A thread that starts over must end before another process may build.
        await in_thread(lambda _, __: claim.start_over(), is_waited_for=True)
        await build(claim)
        return claim.share()
