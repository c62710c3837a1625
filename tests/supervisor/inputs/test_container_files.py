"""What is at places of a directory whose owner may be an attacker."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.core.containers.output.plan import (
    DirectoryEntry,
    FileEntry,
    LinkEntry,
    SpecialEntry,
    UnreadableEntry,
)
from lading.process.cancellation import Stopped
from lading.supervisor.inputs.container_files import find_entry as look


@pytest.fixture
def top(tmp_path: Path) -> Path:
    place = tmp_path / "top"
    (place / "d").mkdir(parents=True)
    (place / "d" / "file").write_bytes(b"12345")
    (place / "d" / "link").symlink_to("/etc")
    os.mkfifo(place / "d" / "pipe")
    return place


def test_every_kind_is_told(top: Path) -> None:
    assert look(top, "d/file", measured=True) == FileEntry(5)
    assert look(top, "d/link", measured=True) == LinkEntry("/etc")
    assert look(top, "d/pipe", measured=True) == SpecialEntry()
    assert look(top, "", measured=True) == DirectoryEntry(("d",))
    assert look(top, "d/none", measured=True) is None
    assert look(top, "d/file/none", measured=True) is None
    assert look(top / "none", "", measured=True) is None


@pytest.mark.parametrize("measured", [True, False])
def test_the_files_of_a_directory_are_measured_where_that_is_wanted(
    top: Path, measured: bool
) -> None:
    found = look(top, "d", measured=measured)
    assert isinstance(found, DirectoryEntry)
    assert sorted(found.names) == ["file", "link", "pipe"]
    assert found.files == {"file"}
    assert found.sizes == ({"file": 5} if measured else {})


def test_no_link_is_followed_on_the_way(top: Path, tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "secret").touch()
    (top / "way").symlink_to(tmp_path / "host")
    assert look(top, "way/secret", measured=True) is None
    assert look(top, "way", measured=True) == LinkEntry(str(tmp_path / "host"))


def test_looking_at_a_large_directory_can_be_stopped(top: Path) -> None:
    for number in range(300):
        (top / "d" / f"more{number}").touch()
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) > 1

    with pytest.raises(Stopped):
        look(top, "d", measured=False, stop=stop)


@pytest.fixture
def foreign() -> Iterator[Path]:
    """A directory with files of root, that an ordinary account reads for the rest of the test."""
    if os.geteuid() != 0:
        pytest.skip("files of another account need root")
    with tempfile.TemporaryDirectory(prefix="foreign-", dir="/var/tmp") as folder:
        top = Path(folder)
        for path, mode in {"secret": 0o700, "listed": 0o744, "shut": 0o711}.items():
            (top / path).mkdir()
            (top / path / "file").write_text("x")
            (top / path).chmod(mode)
        (top / "public").write_text("p")
        (top / "private").write_text("s")
        (top / "private").chmod(0o600)
        top.chmod(0o755)
        os.seteuid(65534)
        try:
            yield top
        finally:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        ("private", UnreadableEntry()),
        ("public", FileEntry(1)),
        ("secret", UnreadableEntry()),
        ("secret/file", UnreadableEntry()),
        ("listed", DirectoryEntry(("file",))),
        ("listed/file", UnreadableEntry()),
        ("shut", UnreadableEntry()),
    ],
)
def test_an_entry_of_another_account_is_told_unreadable(
    foreign: Path, path: str, entry: object
) -> None:
    assert look(foreign, path, measured=True) == entry


def test_unreadable_files_are_not_among_those_that_need_no_examination(foreign: Path) -> None:
    top = look(foreign, "", measured=True)
    assert isinstance(top, DirectoryEntry)
    assert top.files == frozenset({"public"})
    assert top.sizes == {"public": 1}
    assert {"private", "secret"} < {*top.names}
