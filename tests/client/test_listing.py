from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lading.client.listing import list_sources
from lading.core.errors import Invalid


def test_files_come_before_directories_and_all_are_sorted(tmp_path: Path) -> None:
    for name in ("b", "a/z", "a/y/x", "c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    listing = list_sources({"": tmp_path})
    assert [found.path for found in listing.files] == ["b", "c", "a/z", "a/y/x"]
    assert listing.empty == ["empty/inner"]
    assert listing.size == 10


def test_sources_at_their_places(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "two").write_text("2")
    listing = list_sources({"x/first": tmp_path / "one", "dir": tmp_path / "d"})
    assert [found.path for found in listing.files] == ["dir/two", "x/first"]


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("f")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "dir").symlink_to(tmp_path / "outside")
    (tmp_path / "in" / "file").symlink_to(tmp_path / "outside" / "f")
    assert [found.path for found in list_sources({"": tmp_path / "in"}).files] == ["file", "dir/f"]


def test_a_loop_of_links_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "up").symlink_to(tmp_path)
    with pytest.raises(Invalid, match="leads back to a directory above it"):
        list_sources({"": tmp_path})


def test_a_link_to_itself_is_named(tmp_path: Path) -> None:
    (tmp_path / "good").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(Invalid, match="/loop: cannot be read: Too many levels"):
        list_sources({"": tmp_path})


def test_directories_10_000_deep_are_refused_in_few_words(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    top = os.open(tmp_path / "d", os.O_RDONLY)
    below = os.dup(top)
    try:
        for _ in range(10_000):
            os.mkdir("d", dir_fd=below)
            further = os.open("d", os.O_RDONLY, dir_fd=below)
            os.close(below)
            below = further
        with pytest.raises(Invalid, match="more than 200 directories deep; store it in parts") as caught:
            list_sources({"": tmp_path / "d"})
        assert len(caught.value.message) < 500
    finally:
        os.close(below)
        os.close(top)
        # Deeper than what Python would remove.
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_a_name_with_control_characters_stays_on_its_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a\nb\x1b[2J")
    with pytest.raises(Invalid, match=r"a\\nb\\x1b\[2J': a named pipe") as caught:
        list_sources({"": tmp_path})
    assert caught.value.message.isprintable()


def test_the_same_directory_twice_is_no_loop(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("f")
    (tmp_path / "e").symlink_to(tmp_path / "d")
    assert [found.path for found in list_sources({"": tmp_path}).files] == ["d/f", "e/f"]


def test_what_cannot_be_stored_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="absent: cannot be read: No such file"):
        list_sources({"": tmp_path / "absent"})
    (tmp_path / "dangling").symlink_to(tmp_path / "absent")
    with pytest.raises(Invalid, match="dangling: cannot be read"):
        list_sources({"": tmp_path})
    (tmp_path / "dangling").unlink()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Invalid, match="pipe: a named pipe cannot be stored; leave it out"):
        list_sources({"": tmp_path})
