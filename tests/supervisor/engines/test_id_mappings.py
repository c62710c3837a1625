from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from lading.core.user_ids import SIZE, Extent, extents
from lading.supervisor import linux
from lading.supervisor.engines import id_mappings
from lading.supervisor.engines.id_mappings import (
    FIRST,
    READ_ONLY,
    SLOTS,
    attach_mount,
    copy_mount,
    fault_of,
    give_back,
    hidden_proc,
    make_namespace,
    mount_points,
    reopen,
    take_mapping,
    take_slot,
)
from tests.reality import need, need_root


@pytest.fixture
def namespace(tmp_path: Path) -> int:
    need_root()
    need(fault_of(tmp_path) == "", "idmapped mounts")
    return make_namespace(extents(FIRST))


def test_ranges_are_apart_and_never_reach_the_id_that_means_none() -> None:
    assert FIRST + SLOTS * SIZE < 0xFFFFFFFF


def test_no_two_have_the_same_range(tmp_path: Path) -> None:
    locks = [os.open(tmp_path / "ids", os.O_RDWR | os.O_CREAT) for _ in range(3)]
    first, second = take_slot(locks[0]), take_slot(locks[1])
    assert first != second
    os.close(locks[0])
    assert take_slot(locks[2]) == first
    for lock in locks[1:]:
        os.close(lock)


def test_there_is_an_end_to_ranges(tmp_path: Path) -> None:
    locks = [os.open(tmp_path / "ids", os.O_RDWR | os.O_CREAT) for _ in range(2)]
    take_slot(locks[0], 1)
    with pytest.raises(OSError, match="all 1 ranges"):
        take_slot(locks[1], 1)
    for lock in locks:
        os.close(lock)


def test_two_containers_of_one_process_have_two_ranges(tmp_path: Path, namespace: int) -> None:
    os.close(namespace)
    mine, other = take_mapping(tmp_path), take_mapping(tmp_path)
    assert abs(mine.first - other.first) >= SIZE
    give_back(mine)
    again = take_mapping(tmp_path)
    assert again is mine
    for mapping in (again, other):
        mapping.close()


def test_a_process_forked_from_another_takes_no_range_of_it(tmp_path: Path, namespace: int) -> None:
    os.close(namespace)
    mine = take_mapping(tmp_path)
    give_back(mine)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, str(take_mapping(tmp_path).first).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = int(os.read(reading, 100))
    assert theirs != mine.first
    assert (theirs - FIRST) % SIZE == 0
    os.close(reading)
    os.close(writing)
    take_mapping(tmp_path).close()


def test_files_are_shown_with_other_owners(tmp_path: Path, namespace: int) -> None:
    (tmp_path / "file").touch()
    os.chown(tmp_path / "file", 5, 0)
    mount = copy_mount(str(tmp_path), namespace=namespace)
    found = Path(f"/proc/self/fd/{mount}/file").stat()
    assert (found.st_uid, found.st_gid) == (FIRST + 5, FIRST)
    os.close(mount)
    os.close(namespace)


def test_a_file_is_opened_again_read_only(tmp_path: Path, namespace: int) -> None:
    os.close(namespace)
    (tmp_path / "file").write_text("data")
    before = os.open(tmp_path / "file", os.O_RDONLY)
    after = reopen(before, attributes=READ_ONLY)
    assert os.read(after, 9) == b"data"
    with pytest.raises(OSError, match="Read-only"):
        os.fchmod(after, 0)
    with pytest.raises(OSError, match="Read-only"):
        os.open(f"/proc/self/fd/{after}", os.O_WRONLY)
    os.close(before)
    os.close(after)


def test_what_cannot_be_is_told(tmp_path: Path, namespace: int) -> None:
    os.close(namespace)
    with pytest.raises(FileNotFoundError):
        copy_mount(str(tmp_path / "none"))
    with pytest.raises(OSError, match="none"):
        attach_mount(copy_mount(str(tmp_path)), str(tmp_path / "none"))
    # The kernel maps no procfs.
    assert "cannot be mapped" in fault_of(Path("/proc/self"))
    with pytest.raises(OSError, match="Invalid argument|not permitted"):
        copy_mount(str(tmp_path), namespace=os.open("/dev/null", os.O_RDONLY))


def test_without_user_namespaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(users: Sequence[Extent]) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(id_mappings, "make_namespace", refuse)
    assert "max_user_namespaces" in fault_of(tmp_path)


def test_a_hidden_part_of_proc() -> None:
    assert "(/proc/kcore)" in hidden_proc(["/proc", "/proc/sys/fs/binfmt_misc", "/proc/kcore"])
    assert hidden_proc(["/", "/proc"]) == ""
    assert "/proc" in mount_points()


def test_what_is_on_fuse_is_known(tmp_path: Path) -> None:
    assert not linux.is_fuse(str(tmp_path))
