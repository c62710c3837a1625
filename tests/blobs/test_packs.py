from __future__ import annotations

import errno
import hashlib
import os
import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lading.blobs.packs import Packs
from lading.core.data.pack_changes import ChangeResult, PackChange
from lading.core.data.pack_format import HEADER_SIZE, PACK_HEADER_SIZE, RecordKind

DONE = ChangeResult.DONE


class Crash(BaseException):
    """The process is killed."""


def _data(number: int) -> bytes:
    return f"block {number} ".encode() * (number % 7 + 1)


def _hash(number: int) -> str:
    return hashlib.md5(_data(number), usedforsecurity=False).hexdigest()


def _put(number: int) -> PackChange:
    return PackChange(RecordKind.PUT, bytes.fromhex(_hash(number)), _data(number))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "blocks"
    (root / "tmp").mkdir(parents=True)
    return root


def _open(root: Path, *, pack_size: int = 1 << 20, pack_records: int = 1 << 16) -> Packs:
    packs = Packs(root, pack_size=pack_size, pack_records=pack_records)
    packs.create()
    return packs


def _remove(packs: Packs, number: int) -> ChangeResult:
    block = packs.look_up(_hash(number))
    assert block is not None
    (result,) = packs.commit([PackChange(RecordKind.REMOVE, block.hash, mtime_ns=block.mtime_ns)])
    return result


def _check(root: Path, present: set[int], absent: set[int] = frozenset()) -> Packs:  # type: ignore[assignment]
    """Whether a new process finds the blocks; it can write, and a third one finds that."""
    packs = _open(root)
    for number in present:
        found = packs.read(_hash(number))
        assert found is not None, number
        assert found[1:] == (_data(number), True)
    assert [number for number in absent if packs.look_up(_hash(number))] == []
    assert packs.commit([_put(10_000)]) == [DONE]
    other = Packs(root)
    assert {number for number in present | {10_000} if other.read(_hash(number))} == (
        present | {10_000}
    )
    return packs


def _compact(packs: Packs) -> None:
    packs.has_upkeep = True
    while packs.has_upkeep:
        packs.compact()


def _names(root: Path, kind: str) -> list[str]:
    return sorted(path.stem.lstrip("0") for path in (root / "packs").glob(f"*.{kind}"))


def test_a_start_reads_no_full_pack_with_its_sidecar(root: Path) -> None:
    packs = _open(root, pack_records=10)
    for number in range(35):
        packs.commit([_put(number)])
    _compact(packs)
    assert _names(root, "pack") == ["1", "2", "3", "4"]
    assert _names(root, "index") == ["1", "2", "3"]
    for number in (1, 2, 3):
        path = root / "packs" / f"{number:08d}.pack"
        path.write_bytes(bytes(path.stat().st_size))
    again = Packs(root)
    again.refresh()
    assert all(again.find(_hash(number)) for number in range(35))


def test_a_damaged_sidecar_is_written_anew(root: Path) -> None:
    packs = _open(root, pack_records=2)
    for number in range(4):
        packs.commit([_put(number)])
    _compact(packs)
    sidecar = root / "packs" / "00000001.index"
    whole = sidecar.read_bytes()
    sidecar.write_bytes(whole[:-1])
    _check(root, {0, 1, 2, 3})
    sidecar.unlink()
    (root / "packs" / "00000009.index").touch()
    _compact(_open(root))
    assert sidecar.read_bytes() == whole
    assert _names(root, "index") == ["1"]


def test_another_process_sees_every_change(root: Path) -> None:
    ours, theirs = _open(root, pack_records=5), _open(root, pack_records=5)
    for number in range(20):
        assert (ours, theirs)[number % 2].commit([_put(number)]) == [DONE]
        assert (theirs, ours)[number % 2].look_up(_hash(number)) is not None
    assert _remove(ours, 3) is DONE
    theirs.refresh()
    assert theirs.find(_hash(3)) is None


def test_what_another_process_compacted_is_found(root: Path) -> None:
    ours, theirs = _open(root, pack_records=10), _open(root, pack_records=10)
    ours.commit([_put(number) for number in range(10)])
    ours.commit([_put(number) for number in range(10, 20)])
    theirs.refresh()
    for number in range(8):
        _remove(ours, number)
    _compact(ours)
    assert "1" not in _names(root, "pack")
    for number in range(8, 20):
        found = theirs.read(_hash(number))
        assert found is not None
        assert found[1] == _data(number)
    # One that was removed is not found at its former position.
    assert theirs.read(_hash(0)) is None
    _check(root, set(range(8, 20)), set(range(8)))


def test_compaction_returns_the_space_of_removed_blocks(root: Path) -> None:
    packs = _open(root, pack_size=4096)
    for start in range(0, 400, 20):
        packs.commit([_put(number) for number in range(start, start + 20)])
    before = sum(path.stat().st_size for path in (root / "packs").glob("*.pack"))
    for number in range(390):
        _remove(packs, number)
    _compact(packs)
    after = sum(path.stat().st_size for path in (root / "packs").glob("*.pack"))
    assert after < before / 4
    _check(root, set(range(390, 400)), set(range(390)))


def test_many_puts_of_one_block_take_bounded_space(root: Path) -> None:
    packs = _open(root, pack_size=2000)
    packs.commit([_put(number) for number in range(5)])
    for _ in range(500):
        packs.commit([_put(0)])
        if packs.has_upkeep:
            packs.compact()
    _compact(packs)
    assert sum(path.stat().st_size for path in (root / "packs").glob("*.pack")) < 9000
    latest = packs.find(_hash(0))
    again = Packs(root)
    again.refresh()
    found = again.find(_hash(0))
    assert latest is not None
    assert found is not None
    assert found.mtime_ns == latest.mtime_ns


def test_a_pack_with_a_damaged_block_is_not_compacted(root: Path) -> None:
    packs = _open(root, pack_records=3)
    packs.commit([_put(number) for number in range(3)])
    packs.commit([_put(3)])
    path = root / "packs" / "00000001.pack"
    block = packs.look_up(_hash(1))
    assert block is not None
    with path.open("r+b") as file:
        file.seek(block.position + HEADER_SIZE)
        file.write(b"!")
    _remove(packs, 0)
    _remove(packs, 2)
    _compact(packs)
    found = packs.read(_hash(1))
    assert found is not None
    assert not found[2]
    assert path.exists()
    # It is stored again by a put, and then the pack is of no use.
    packs.commit([_put(1)])
    _check(root, {1, 3}, {0, 2})


def test_a_pack_with_a_damaged_record_is_not_compacted(root: Path) -> None:
    packs = _open(root, pack_records=3)
    packs.commit([_put(number) for number in range(3)])
    path = root / "packs" / "00000001.pack"
    with path.open("r+b") as file:
        file.seek(PACK_HEADER_SIZE + 10)
        file.write(b"!")
    again = _open(root, pack_records=3)
    again.commit([_put(3)])
    _remove(again, 1)
    _remove(again, 2)
    _compact(again)
    assert path.exists()
    _check(root, {3}, {0, 1, 2})


def test_nothing_is_appended_after_a_record_that_was_cut_off(root: Path) -> None:
    _open(root).commit([_put(0)])
    path = root / "packs" / "00000001.pack"
    whole = path.read_bytes()
    other = root.parent / "other"
    (other / "tmp").mkdir(parents=True)
    _open(other).commit([_put(1)])
    for size in range(1, len(whole)):
        path.write_bytes(whole + whole[PACK_HEADER_SIZE:][:size])
        again = _open(root)
        again.commit([_put(2)])
        assert path.read_bytes()[: len(whole)] == whole
        _check(root, {0, 2})
        for later in (root / "packs").glob("*.pack"):
            if later != path:
                later.unlink()


def test_a_pack_that_is_cut_in_its_header_is_passed_over(root: Path) -> None:
    _open(root).commit([_put(0)])
    for size in range(PACK_HEADER_SIZE):
        (root / "packs" / f"{size + 100:08d}.pack").write_bytes(bytes(size))
        _check(root, {0})


def test_a_reader_sees_nothing_of_a_failed_sync(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = _open(root), _open(root)
    ours.commit([_put(0)])

    def fail(_: int) -> None:
        # As a reader in another process that is quick.
        assert theirs.look_up(_hash(1)) is not None
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(OSError, match="Input/output"):
            ours.commit([_put(1)])
    for packs in (ours, theirs):
        packs.refresh()
        assert packs.find(_hash(1)) is None
        assert packs.find(_hash(0)) is not None
    assert ours.commit([_put(2), _put(1)]) == [DONE, DONE]
    assert _names(root, "pack") == ["1", "2"]
    assert theirs.read(_hash(1)) is not None
    _check(root, {0, 1, 2})


def test_a_put_after_a_killed_writer_syncs_its_record(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(_: int) -> None:
        raise Crash

    packs = _open(root)
    packs.commit([_put(0)])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", crash)
        with pytest.raises(Crash):
            packs.commit([_put(1)])
    path = root / "packs" / "00000001.pack"
    with path.open("ab") as file:
        file.write(b"half a record")
    synced = list[str]()
    sync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    # It is found and touched, in another pack: the first must be on the disk before.
    assert _open(root).commit([_put(1)]) == [DONE]
    assert synced[1:] == ["00000001.pack", "00000002.pack", "packs"]


class Disk:
    """The directory after a power cut: what was synced, and any part of what was not.

    `images` are directories of the moment just before each sync of a pack.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.images = list[tuple[Path, int]]()
        self.acknowledged = 0
        self._sizes = dict[str, int]()
        self._sync = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self._see)

    def _see(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced, size = self._sizes.get(path.name, PACK_HEADER_SIZE), path.stat().st_size
        rest = path.read_bytes()[synced:]
        chosen = random.Random(len(self.images))
        cut = chosen.randrange(len(rest) + 1)
        holes = bytearray(rest)
        start = chosen.randrange(len(rest))
        holes[start : start + 30] = bytes(len(holes[start : start + 30]))
        for tail in (
            b"",
            rest,
            rest[:cut],
            bytes(len(rest)),
            rest[:cut] + bytes(len(rest) - cut),
            bytes(cut) + rest[cut:],
            bytes(holes),
            chosen.randbytes(len(rest)),
        ):
            image = self.root.with_name(f"image{len(self.images)}")
            shutil.copytree(self.root, image)
            os.truncate(image / "packs" / path.name, synced)
            with (image / "packs" / path.name).open("ab") as file:
                file.write(tail)
            self.images.append((image, self.acknowledged))
        self._sync(descriptor)
        self._sizes[path.name] = size


def test_nothing_acknowledged_is_lost_in_a_power_cut(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        disk, number = Disk(root, patch), 0
        packs = _open(root, pack_records=11)
        for count in (1, 3, 2, 7, 1, 5, 4):
            # The first of them again, which is touched.
            packs.commit([_put(0), *(_put(number + one) for one in range(count))])
            number += count
            disk.acknowledged = number
    assert len(disk.images) == 7 * 8
    for image, acknowledged in disk.images:
        _check(image, set(range(acknowledged)))


def _crash_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the process before its step of this number that changes something on the disk."""
    left = [step]

    def counted(work: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **named: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Crash
            return work(*arguments, **named)

        return run

    for name in ("pwrite", "fdatasync", "fsync", "unlink", "rename"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))


def test_compaction_that_is_killed_at_any_step_loses_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs = _open(root, pack_records=10)
    for start in (0, 10, 20, 30):
        packs.commit([_put(number) for number in range(start, start + 10)])
    # Touched in a later pack.
    packs.commit([_put(5)])
    removed = {*range(5), *range(11, 19), *range(20, 28)}
    for number in removed:
        _remove(packs, number)
    present = set(range(40)) - removed
    latest = packs.find(_hash(5))
    assert latest is not None
    for step in range(1000):
        image = root.with_name(f"image{step}")
        shutil.copytree(root, image)
        work = _open(image, pack_records=10)
        work.refresh()
        with monkeypatch.context() as patch:
            _crash_at(step, patch)
            try:
                _compact(work)
            except Crash:
                is_whole = False
            else:
                is_whole = True
        again = _check(image, present, removed)
        _compact(again)
        _compact(_check(image, present, removed))
        found = _check(image, present, removed).find(_hash(5))
        assert found is not None
        assert found.mtime_ns == latest.mtime_ns
        if is_whole:
            break
    assert step > 10
    assert is_whole


def test_a_folder_that_has_gone_is_told(root: Path) -> None:
    packs = _open(root)
    packs.commit([_put(0)])
    shutil.rmtree(root)
    for attempt in (packs.refresh, lambda: packs.read(_hash(0)), lambda: packs.commit([_put(1)])):
        with pytest.raises(FileNotFoundError):
            attempt()


def test_a_full_disk_leaves_what_was_stored(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packs = _open(root)
    packs.commit([_put(0)])
    write = os.pwrite

    def half(descriptor: int, data: memoryview, position: int) -> int:
        write(descriptor, data[: len(data) // 2], position)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half)
        with pytest.raises(OSError, match="No space"):
            packs.commit([_put(1)])
    path = root / "packs" / "00000001.pack"
    block = _check(root, {0}).find(_hash(0))
    assert block is not None
    assert path.stat().st_size == block.position + block.length + 1


@pytest.mark.parametrize("seed", range(60))
def test_several_processes_agree_whatever_their_steps(root: Path, seed: int) -> None:
    chosen = random.Random(seed)

    def begin() -> Packs:
        return _open(root, pack_size=chosen.choice((300, 5000)), pack_records=4)

    processes, present = [begin() for _ in range(3)], dict[int, int]()
    for _ in range(150):
        packs, number = chosen.choice(processes), chosen.randrange(8)
        match chosen.randrange(6):
            case 0 | 1:
                assert packs.commit([_put(number)]) == [DONE]
                block = packs.find(_hash(number))
                assert block is not None
                present[number] = block.mtime_ns
            case 2 if number in present:
                packs.refresh()
                assert _remove(packs, number) is DONE
                del present[number]
            case 3:
                packs.has_upkeep = True
                for _ in range(chosen.randrange(1, 5)):
                    packs.compact()
            case 4:
                processes[processes.index(packs)] = begin()
            case 5:
                (root / "packs" / f"{chosen.randrange(1, 20):08d}.index").unlink(missing_ok=True)
        reader = chosen.choice(processes)
        reader.refresh()
        assert {block.hash.hex() for block in reader.list_all()} == set(map(_hash, present))
        for one, mtime_ns in present.items():
            found = reader.read(_hash(one))
            assert found is not None
            assert (found[0].mtime_ns, *found[1:]) == (mtime_ns, _data(one), True)
    _check(root, set(present), set(range(8)) - set(present))


def test_threads_of_two_processes_lose_nothing(root: Path) -> None:
    processes = [_open(root, pack_records=7) for _ in range(2)]

    def work(start: int) -> None:
        packs = processes[start % 2]
        for number in range(start, 200, 4):
            assert packs.commit([_put(number)]) == [DONE]
            assert packs.read(_hash(number)) is not None
            if number % 3 == 0:
                assert _remove(packs, number) is DONE
                packs.compact()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    present = {number for number in range(200) if number % 3}
    _check(root, present, set(range(200)) - present)
