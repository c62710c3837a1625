"""Which mounts held more than their own capacity."""

from __future__ import annotations

from pathlib import Path

from lading.supervisor.limits.mount_use import MountUse

KIB = 1 << 10


def write(directory: Path, name: str, size: int) -> None:
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(b"x" * size)


def test_mounts_that_outgrew_their_capacity(tmp_path: Path) -> None:
    directories = {"/a": tmp_path / "a", "/b": tmp_path / "b"}
    uses = MountUse(directories, {"/a": 64 * KIB, "/b": 64 * KIB, "/in/memory": KIB})
    write(tmp_path / "a", "f", 60 * KIB)
    write(tmp_path / "b", "f", 60 * KIB)
    uses.look()
    assert uses.overfull == {}
    write(tmp_path / "b", "g", 60 * KIB)
    uses.look()
    assert uses.overfull == {"/b": 64 * KIB}
    # It did, although it does no more.
    (tmp_path / "b" / "g").unlink()
    uses.look()
    assert uses.overfull == {"/b": 64 * KIB}


def test_copies_of_collections_do_not_count(tmp_path: Path) -> None:
    uses = MountUse({"/a": tmp_path / "a"}, {"/a": 64 * KIB})
    write(tmp_path / "a", "copy", 100 * KIB)
    uses.exclude_copies()
    write(tmp_path / "a", "f", 60 * KIB)
    uses.look()
    assert uses.overfull == {}
    write(tmp_path / "a", "g", 60 * KIB)
    uses.look()
    assert uses.overfull == {"/a": 64 * KIB}


def test_a_mount_that_takes_too_long_is_not_judged(tmp_path: Path) -> None:
    times = iter(range(0, 1_000_000, 100))
    write(tmp_path / "a", "f", 60 * KIB)
    uses = MountUse({"/a": tmp_path / "a"}, {"/a": KIB}, clock=lambda: float(next(times)))
    uses.look()
    assert uses.overfull == {}
    uses.exclude_copies()
    uses.look()
    assert uses.overfull == {}
