"""The pack files of a directory volume; `core.data.pack_format` has their format.

    <directory>/packs/lock                  held by whoever writes
    <directory>/packs/<number>.pack         packs; records are appended to the one with the highest
                                            number
    <directory>/packs/<number>.index        the sidecar of a pack that is full

Any number of processes read and write the packs of a directory. A writer holds the lock from
before it reads the records of others until its own are synced, so that all records have one order.
A reader holds no lock: bytes of a pack never change, and it reads up to the last intact record.

Bytes after that record were left by a writer that died or by a power cut. Nobody acknowledged them.
Nothing is appended to such a pack; a new one is begun. So is it after a failed write or sync, whose
records are cut off. Compaction returns that space.

Compaction writes the present blocks of a pack again, syncs them, and then removes the pack. When
it is interrupted, the later records count, and the pack is removed by the next compaction.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lading.core.data.pack_changes import ChangeResult, PackBatch, PackChange
from lading.core.data.pack_format import (
    HEADER_SIZE,
    KEY_SIZE,
    PACK_HEADER_SIZE,
    PackRecord,
    PackScanner,
    RecordKind,
    decode_sidecar,
    encode_pack_header,
    encode_sidecar,
    find_key,
    has_gap,
)
from lading.core.data.pack_index import (
    PackEntry,
    PackIndex,
    PackUse,
    choose_pack,
    is_needed,
)

# Bytes and records after which a new pack is begun: a pack is read in a fraction of a second.
_PACK_SIZE: Final = 64 << 20
_PACK_RECORDS: Final = 1 << 14
# Bytes of the largest pack that is read; none of this program is as large.
_MOST: Final = 1 << 31
# Bytes that are read at a time.
_STEP: Final = 1 << 20
# Records, and bytes of blocks, that compaction moves at a time; puts wait for that long.
_MOVED_RECORDS: Final = 1024
_MOVED_BYTES: Final = 1 << 20
# Times that the packs are listed while compaction removes some.
_LISTINGS: Final = 100
# Times that a block is looked up again when it was moved meanwhile.
_TRIES: Final = 3
_PACK_NAME: Final = re.compile(r"([0-9]{8,9})\.pack")
_SIDECAR_NAME: Final = re.compile(r"([0-9]{8,9})\.index")


@dataclass(slots=True)
class _Pack:
    """A pack as far as it was read: its key, the position after the last intact record, the size
    of the file, the number of records, the bytes of records that store no block.
    """

    key: bytes | None
    end: int = PACK_HEADER_SIZE
    size: int = 0
    records: int = 0
    notes: int = 0


@dataclass(slots=True)
class _Compaction:
    """A pack that is being compacted, and its records that were not looked at yet."""

    pack: int
    records: list[PackRecord]


class Packs:
    """The packs below a directory. The methods run in threads, any number at a time. They raise
    OSError, and FileNotFoundError when the directory has gone.
    """

    def __init__(
        self,
        directory: Path,
        *,
        pack_size: int = _PACK_SIZE,
        pack_records: int = _PACK_RECORDS,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._folder, self._aside = directory / "packs", directory / "tmp"
        self._pack_size, self._pack_records = pack_size, pack_records
        self._clock_ns = clock_ns
        # For the index and the facts of the packs; not held while records are synced.
        self._mutex = threading.RLock()
        self._index = PackIndex()
        self.files = dict[int, _Pack]()
        """The pack files that the folder had when it was read last (`refresh`), by number."""
        self._compaction: _Compaction | None = None
        # Packs with damaged blocks or records: their bytes stay.
        self._left = set[int]()
        self.has_upkeep = True
        """Whether there may be packs to compact, or sidecars to write."""

    def create(self) -> None:
        """Create the folder of the packs."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        _sync_folder(self._folder.parent)

    def find(self, hash: str) -> PackEntry | None:
        """A block that was in a pack file when the folder was read last, or None."""
        return self._find(bytes.fromhex(hash))

    def look_up(self, hash: str) -> PackEntry | None:
        """A block, or None. Reads records of other writers if need be."""
        block = self.find(hash)
        if block is None:
            self.refresh()
            block = self.find(hash)
        return block

    def list_folder(self, number: int) -> list[PackEntry]:
        """The blocks whose hashes begin with the three digits of a number, sorted by hash."""
        with self._mutex:
            return self._index.folder(number)

    def list_folders(self) -> list[int]:
        """The numbers of the folders with blocks."""
        with self._mutex:
            return self._index.folders()

    def list_all(self) -> Iterator[PackEntry]:
        """All blocks, sorted by hash."""
        for number in self.list_folders():
            yield from self.list_folder(number)

    def read(self, hash: str) -> tuple[PackEntry, bytes, bool] | None:
        """A block, its bytes, and whether they match the hash; None where it is not packed."""
        stale: PackEntry | None = None
        for _ in range(_TRIES):
            block = self.look_up(hash)
            if block is None:
                return None
            # Compaction has moved it, and removed the pack.
            with suppress(FileNotFoundError):
                data = self._read_block(block)
                is_intact = _md5(data) == block.hash
                # A damaged one may have been replaced by another process.
                if is_intact or block == stale:
                    return block, data, is_intact
            stale = block
            self.refresh()
        return None

    def refresh(self) -> None:
        """Read the records that were written since the last refresh."""
        with self._mutex:
            # Again while compaction removes packs: what they had may be in a pack that was not
            # listed.
            for _ in range(_LISTINGS):
                if self._read_new():
                    return
            raise FileNotFoundError(errno.ENOENT, "packs go while they are listed", self._folder)

    def _read_new(self) -> bool:
        try:
            names = [path.name for path in self._folder.iterdir()]
        except FileNotFoundError:
            # Nothing was ever packed here, or the disk is not mounted.
            if self.files:
                raise
            return True
        numbers = _numbers(names, _PACK_NAME)
        latest = max(self.files, default=0)
        unread = [number for number in numbers if number >= latest or number not in self.files]
        is_cut = any(number < latest for number in unread)
        for number in unread:
            try:
                is_cut = is_cut or not self._read_pack(number, is_full=number != numbers[-1])
            except FileNotFoundError:
                return False
        if is_cut:
            # Records were read here before they were cut off.
            self._forget()
            return False
        if self.files.keys() - set(numbers):
            self.files = {number: self.files[number] for number in numbers}
            self._index.keep_packs(self.files)
        return True

    def commit(self, changes: Sequence[PackChange]) -> list[ChangeResult]:
        """Make changes, durably."""
        if not changes:
            return []
        with self._locked():
            batch = self._begin_batch()
            results = [batch.add(change) for change in changes]
            self._append(batch)
        return results

    def compact(self) -> None:
        """Do a part of what `has_upkeep` says."""
        # After a failure it begins anew: the records that were taken are lost.
        work, self._compaction = self._compaction, None
        try:
            if work is None and self._write_sidecar():
                return
            work = work or self._choose()
            if work is None:
                self.has_upkeep = False
            elif not work.records:
                self._remove_pack(work.pack)
            elif self._move_some(work):
                self._compaction = work
        # Another process has compacted it.
        except FileNotFoundError:
            self.refresh()

    # Reading.

    def _find(self, hash: bytes) -> PackEntry | None:
        with self._mutex:
            return self._index.find(hash)

    def _read_pack(self, number: int, *, is_full: bool) -> bool:
        """Read the rest of a pack; False where records that were read are no longer there."""
        with _opened(self._path(number, "pack"), os.O_RDONLY) as descriptor:
            size = os.fstat(descriptor).st_size
            pack = self.files.get(number)
            if pack is not None and size < pack.end:
                return False
            if pack is None:
                pack = self.files[number] = _Pack(None)
                records = self._read_sidecar(number, size) if is_full else None
                if records is not None:
                    pack.end = pack.size = size
                    self._apply(records, number)
                    return True
            # The header of a new pack may not have been there earlier.
            pack.key = pack.key or _read_key(descriptor)
            pack.size = size
            if pack.key is not None:
                scanner = PackScanner(pack.key, pack.end)
                for records in _scan(descriptor, scanner, size):
                    self._apply(records, number)
                pack.end = scanner.end
        return True

    def _read_sidecar(self, number: int, pack_size: int) -> list[PackRecord] | None:
        try:
            return decode_sidecar(self._path(number, "index").read_bytes(), pack_size)
        except FileNotFoundError:
            return None

    def _list_records(self, number: int) -> list[PackRecord]:
        """All records of a full pack; its sidecar is written if it is missing or damaged."""
        with _opened(self._path(number, "pack"), os.O_RDONLY) as descriptor:
            size = os.fstat(descriptor).st_size
            records = self._read_sidecar(number, size)
            key = _read_key(descriptor)
            if records is not None or key is None:
                return records or []
            records = [
                record
                for scanned in _scan(descriptor, PackScanner(key), size)
                for record in scanned
            ]
        # Not synced: a sidecar that a power cut has damaged is written again.
        with suppress(OSError):
            aside, name = tempfile.mkstemp(dir=self._aside)
            with os.fdopen(aside, "wb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write(encode_sidecar(records, key, size))
                file.flush()
                Path(name).rename(self._path(number, "index"))
        return records

    def _apply(self, records: Sequence[PackRecord], number: int) -> None:
        pack = self.files[number]
        for record in records:
            self._index.apply(record, number)
        pack.records += len(records)
        pack.notes += HEADER_SIZE * sum(record.kind is not RecordKind.PUT for record in records)

    def _forget(self) -> None:
        self._index, self.files = PackIndex(), {}

    def _read_block(self, block: PackEntry) -> bytes:
        with _opened(self._path(block.pack, "pack"), os.O_RDONLY) as descriptor:
            return os.pread(descriptor, block.size, block.position + HEADER_SIZE)

    def _path(self, number: int, kind: str) -> Path:
        return self._folder / f"{number:08d}.{kind}"

    # Writing.

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the writers, with the records of all of them read."""
        descriptor = os.open(
            self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode=0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self.refresh()
            yield
        # The lock ends with the descriptor, also when the process dies.
        finally:
            os.close(descriptor)

    def _begin_batch(self) -> PackBatch:
        """A batch for the last pack, or for a new one."""
        with self._mutex:
            number = max(self.files, default=0)
            pack = self.files.get(number)
            if (
                pack is None
                or pack.key is None
                # Bytes without an intact record: see the module.
                or pack.size > pack.end
                or pack.end >= self._pack_size
                or pack.records >= self._pack_records
            ):
                number += 1
                pack = self._create_pack(number)
            assert pack.key is not None
            return PackBatch(
                pack=number,
                position=pack.end,
                key=pack.key,
                now_ns=self._clock_ns(),
                find=self._find,
                is_intact=self._is_intact,
            )

    def _create_pack(self, number: int) -> _Pack:
        # A record of a writer that died may not be on the disk yet; the new pack may refer to it.
        if number - 1 in self.files:
            with _opened(self._path(number - 1, "pack"), os.O_RDONLY) as descriptor:
                os.fsync(descriptor)
        key = os.urandom(KEY_SIZE)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with _opened(self._path(number, "pack"), flags) as descriptor:
            _write_all(descriptor, encode_pack_header(key), 0)
            os.fsync(descriptor)
        _sync_folder(self._folder)
        # The sidecar of the former one.
        self.has_upkeep = True
        pack = self.files[number] = _Pack(key, size=PACK_HEADER_SIZE)
        return pack

    def _is_intact(self, block: PackEntry, data: bytes) -> bool:
        # What cannot be read is stored again.
        with suppress(OSError):
            return self._read_block(block) == data
        return False

    def _append(self, batch: PackBatch) -> None:
        """Write the records of a batch, durably."""
        if not batch.records:
            return
        with _opened(self._path(batch.pack, "pack"), os.O_WRONLY) as descriptor:
            try:
                _write_all(descriptor, batch.data, batch.start)
                os.fdatasync(descriptor)
            except OSError:
                self._cut(descriptor, batch.start)
                raise
        end = batch.start + len(batch.data)
        with self._mutex:
            pack = self.files.get(batch.pack)
            # A reader of this process may have read them, or forgotten everything.
            if pack is not None and pack.end < end:
                self._apply(batch.records, batch.pack)
                pack.end = pack.size = end
        self.has_upkeep |= any(record.kind is RecordKind.REMOVE for record in batch.records)

    def _cut(self, descriptor: int, end: int) -> None:
        """Take back the records of a failed write or sync."""
        # Readers may have read them.
        with self._mutex:
            self._forget()
        # The kernel may have dropped their pages unwritten; a later sync would not notice. The
        # byte in their place keeps everybody from appending to this pack.
        with suppress(OSError):
            os.ftruncate(descriptor, end)
            os.ftruncate(descriptor, end + 1)

    # Compaction.

    def _write_sidecar(self) -> bool:
        """Write one missing sidecar of a full pack; False where none is missing."""
        names = [path.name for path in self._folder.iterdir()]
        numbers = _numbers(names, _PACK_NAME)
        listed = set(_numbers(names, _SIDECAR_NAME))
        for number in sorted(listed - set(numbers)):
            # Its pack was removed.
            self._path(number, "index").unlink(missing_ok=True)
        for number in numbers[:-1]:
            if number not in listed:
                self._list_records(number)
                # A pack without a header gets none.
                if self._path(number, "index").exists():
                    return True
        return False

    def _choose(self) -> _Compaction | None:
        with self._mutex:
            uses = {
                number: PackUse(pack.size, self._index.live(number), pack.notes)
                for number, pack in self.files.items()
            }
            chosen = choose_pack(uses, {*self._left, max(self.files, default=0)})
        if chosen is None:
            return None
        records = self._list_records(chosen)
        # Bytes that no record explains may belong to a block.
        if has_gap(records) or (not records and uses[chosen].size > PACK_HEADER_SIZE):
            self._left.add(chosen)
            return self._choose()
        return _Compaction(chosen, records[::-1])

    def _move_some(self, work: _Compaction) -> bool:
        """Write some records of a pack again that are needed; False where the pack has to stay."""
        with self._locked():
            batch = self._begin_batch()
            is_oldest = work.pack == min(self.files)
            for _ in range(_MOVED_RECORDS):
                if not work.records or len(batch.data) >= _MOVED_BYTES:
                    break
                if not self._move(work.records.pop(), work.pack, batch, is_oldest=is_oldest):
                    self._left.add(work.pack)
                    return False
            self._append(batch)
        return True

    def _move(self, record: PackRecord, pack: int, batch: PackBatch, *, is_oldest: bool) -> bool:
        """Add a record to a batch if it is needed; False where its block is damaged."""
        block = batch.find(record.hash)
        if not is_needed(record, pack, block, is_oldest=is_oldest):
            return True
        data, time_ns = b"", record.time_ns
        if record.kind is RecordKind.PUT and block is not None:
            data, time_ns = self._read_block(block), block.mtime_ns
            if _md5(data) != record.hash:
                return False
        batch.write(record.kind, record.hash, time_ns, data)
        return True

    def _remove_pack(self, number: int) -> None:
        with self._locked():
            if number == max(self.files, default=0) or self._index.live(number):
                self._left.add(number)
                return
            self._path(number, "pack").unlink()
            # Before a later compaction drops removals of its blocks, this must be durable.
            _sync_folder(self._folder)
            self._path(number, "index").unlink(missing_ok=True)
            with self._mutex:
                self.files.pop(number, None)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode=0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _numbers(names: Iterable[str], pattern: re.Pattern[str]) -> list[int]:
    """The numbers in the names of files, sorted."""
    return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)


def _read_key(descriptor: int) -> bytes | None:
    return find_key(os.pread(descriptor, PACK_HEADER_SIZE + HEADER_SIZE, 0))


def _scan(descriptor: int, scanner: PackScanner, size: int) -> Iterator[list[PackRecord]]:
    start, end = scanner.end, min(size, _MOST)
    while start < end:
        piece = os.pread(descriptor, min(_STEP, end - start), start)
        if not piece:
            return
        yield scanner.feed(piece)
        start += len(piece)


def _write_all(descriptor: int, data: bytes | bytearray, position: int) -> None:
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            done += os.pwrite(descriptor, view[done:], position + done)


def _sync_folder(folder: Path) -> None:
    with _opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()
