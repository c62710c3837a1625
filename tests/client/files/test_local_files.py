from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.client.files.local_files import SafeWriter
from lading.core.errors import Conflict, Full, Invalid, Unavailable


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "target" / "here"


@pytest.fixture
def landing(root: Path) -> Iterator[SafeWriter]:
    before = len(list(Path("/proc/self/fd").iterdir()))
    made = SafeWriter(root)
    yield made
    made.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def _files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_write_and_append(landing: SafeWriter, root: Path) -> None:
    landing.make_folders(["d", "d/e"])
    landing.write({"a": [b"1", b"2"], "d/e/f": [], "d/x": [b"x"]})
    landing.append("big", b"abc", 5)
    landing.write({"other/place": [b"p"]})
    assert "big" not in _files(root)
    landing.append("big", b"de", 5)
    assert _files(root) == {
        "a": b"12",
        "d/e/f": b"",
        "d/x": b"x",
        "big": b"abcde",
        "other/place": b"p",
    }


def test_files_are_replaced_links_too(landing: SafeWriter, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("safe")
    (root / "old").write_text("old")
    (root / "link").symlink_to(outside)
    landing.write({"old": [b"new"], "link": [b"new"]})
    assert _files(root) == {"old": b"new", "link": b"new"}
    assert outside.read_text() == "safe"
    assert not (root / "link").is_symlink()


@pytest.mark.parametrize("path", ["link/f", "link/deeper/f", "file/f"])
def test_nothing_is_written_through_a_link_or_a_file(
    landing: SafeWriter, root: Path, tmp_path: Path, path: str
) -> None:
    (tmp_path / "outside").mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "file").write_text("file")
    with pytest.raises(Conflict, match="in the way"):
        landing.write({path: [b"x"]})
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_directory_in_the_way_of_a_file(landing: SafeWriter, root: Path) -> None:
    (root / "d").mkdir()
    with pytest.raises(Conflict, match="in the way"):
        landing.write({"d": [b"x"]})
    assert [path.name for path in root.iterdir()] == ["d"]


@pytest.mark.parametrize(
    "path",
    ["../f", "a/../../f", "/f", "", ".", "a//f", "a\0b", "\ud800", "d/" * 10_000 + "f", "n" * 256],
)
def test_paths_that_lead_outside_are_refused(landing: SafeWriter, path: str) -> None:
    with pytest.raises(Invalid):
        landing.write({path: [b"x"]})
    with pytest.raises(Invalid):
        landing.make_folders([path])


def test_a_file_that_others_write(landing: SafeWriter, root: Path) -> None:
    descriptor = landing.begin("d/large", 4)
    os.pwrite(descriptor, b"cd", 2)
    os.pwrite(descriptor, b"ab", 0)
    assert "d/large" not in _files(root)
    landing.land()
    landing.land()
    assert _files(root) == {"d/large": b"abcd"}
    os.pwrite(landing.begin("other", 4), b"half", 0)


def test_what_is_not_complete_disappears(root: Path) -> None:
    landing = SafeWriter(root)
    landing.append("d/big", b"half", 8)
    landing.close()
    assert _files(root) == {}
    with pytest.raises(Unavailable, match="given up"):
        landing.write({"f": [b"x"]})


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, Full), (errno.EIO, Unavailable)])
def test_a_disk_that_fails(
    landing: SafeWriter,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: type[Exception],
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(kind):
            landing.write({"f": [b"x"]})
        with pytest.raises(kind):
            landing.append("g", b"x", 5)
    assert _files(root).keys() <= {path.name for path in root.glob(".*.part")}


def test_a_folder_that_goes_away(landing: SafeWriter, root: Path) -> None:
    landing.make_folders(["d"])
    (root / "d").rmdir()
    with pytest.raises(Unavailable, match="cannot be written"):
        landing.write({"d/f": [b"x"]})


def test_a_target_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("file")
    with pytest.raises(Conflict):
        SafeWriter(tmp_path / "file")
