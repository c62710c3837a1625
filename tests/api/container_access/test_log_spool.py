"""The spool of live logs."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from lading.api.container_access import log_spool
from lading.api.container_access.log_spool import Spool
from lading.client.caches.disk_space import read_disk
from lading.core.containers.disk_space import Amount
from lading.core.errors import Conflict, Full, Invalid, TooLarge, Unavailable


def test_appends_may_be_repeated(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "live", disk_reserve=Amount())
    assert spool.append("c", "a.txt", b"hello ", offset=0) == 6
    assert spool.append("c", "a.txt", b"lo world", offset=3) == 11
    assert spool.append("c", "a.txt", b"hell", offset=0) == 11
    with spool.open("c", "a.txt") or io.BytesIO() as file:
        assert file.read() == b"hello world"
    assert spool.names("c") == ["a.txt"]


def test_whether_a_supervisor_posts_here(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "live", disk_reserve=Amount())
    assert not spool.is_current("c")
    spool.append("c", "a.txt", b"hello", offset=0)
    assert spool.is_current("c")
    # Another process of the same server does not know it yet.
    assert not Spool(tmp_path / "live", disk_reserve=Amount()).is_current("c")
    spool.mark_left("c")
    assert not spool.is_current("c")
    assert spool.append("c", "a.txt", b"", offset=0) == 5
    assert spool.is_current("c")
    spool.remove("c")
    assert not spool.is_current("c")


def test_gaps_bad_names_and_giants_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path, disk_reserve=Amount())
    with pytest.raises(Conflict, match="leaves a gap"):
        spool.append("c", "a", b"x", offset=1)
    for name in ("../a", ".hidden", "", "a/b", "a" * 101):
        with pytest.raises(Invalid, match="not a file name"):
            spool.append("c", name, b"x", offset=0)
        assert spool.open("c", name) is None
    monkeypatch.setattr(log_spool, "MAX_FILE", 3)
    with pytest.raises(TooLarge):
        spool.append("c", "a", b"1234", offset=0)


def test_the_reserve_of_the_disk_is_left(tmp_path: Path) -> None:
    with pytest.raises(Full, match=r"live/a: the disk of .* is almost full"):
        Spool(tmp_path, disk_reserve=Amount(1 << 60, 0)).append("c", "a", b"x", offset=0)


def test_spools_go(tmp_path: Path) -> None:
    spool = Spool(tmp_path, disk_reserve=Amount())
    for uuid in ("c", "d"):
        spool.append(uuid, "a", b"x", offset=0)
    spool.remove("c")
    spool.remove("never")
    assert spool.names("c") == []
    assert spool.expire(0) == 0
    assert spool.expire(1 << 40) == 1
    assert spool.open("d", "a") is None


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, Full), (errno.EIO, Unavailable)])
def test_a_disk_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Unavailable]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.raises(kind, match=r"live/a\.txt: cannot be written") as caught:
        Spool(tmp_path, disk_reserve=Amount()).append("c", "a.txt", b"x", offset=0)
    assert type(caught.value) is kind


def test_records_leave_a_part_of_the_reserve(tmp_path: Path) -> None:
    free = read_disk(tmp_path).free.size
    Spool(tmp_path / "live", disk_reserve=Amount(0, 0)).check_records(1000)
    Spool(tmp_path / "live", disk_reserve=Amount(free * 3, 0)).check_records(1000)
    for kept, need in ((free * 5, 0), (0, free)):
        with pytest.raises(Full, match="nothing more can be stored now"):
            Spool(tmp_path / "live", disk_reserve=Amount(kept, 0)).check_records(need)
