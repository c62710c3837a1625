from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from lading.client.files.listed_files import Listing
from lading.client.files.listing import LinkPolicy, list_sources
from lading.core.errors import Invalid


def _paths(listing: Listing) -> list[str]:
    """The paths in the collection of all files; checks that each is found at its number."""
    with listing:
        found = []
        for place, folder in listing.placed():
            for number, name in enumerate(folder.names, folder.first):
                (one,) = listing.found(place, number, number + 1)
                assert one.size == folder.sizes[number - folder.first]
                found.append(f"{folder.path}/{name}" if folder.path else name)
        assert len(found) == listing.count
        return found


def test_files_come_before_directories_and_all_are_sorted(tmp_path: Path) -> None:
    for name in ("b", "a/z", "a/y/x", "c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    listing = list_sources({"": tmp_path})
    assert listing.size == 10
    assert [folder.path for folder in listing.folders() if not folder.names] == ["empty/inner"]
    assert _paths(listing) == ["b", "c", "a/z", "a/y/x"]


def test_sources_at_their_places(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "two").write_text("2")
    listing = list_sources({"x/first": tmp_path / "one", "dir": tmp_path / "d"})
    assert _paths(listing) == ["dir/two", "x/first"]


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("f")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "dir").symlink_to(tmp_path / "outside")
    (tmp_path / "in" / "file").symlink_to(tmp_path / "outside" / "f")
    assert _paths(list_sources({"": tmp_path / "in"})) == ["file", "dir/f"]


def test_a_loop_of_links_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "up").symlink_to(tmp_path)
    with pytest.raises(Invalid, match="leads back to a directory above it"):
        list_sources({"": tmp_path})


def test_a_link_to_itself_is_named(tmp_path: Path) -> None:
    (tmp_path / "good").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(Invalid, match="/loop: is a link to loop that goes in a circle"):
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
        with pytest.raises(
            Invalid, match="more than 200 directories deep; store it in parts"
        ) as caught:
            list_sources({"": tmp_path / "d"})
        assert len(caught.value.message) < 500
    finally:
        os.close(below)
        os.close(top)
        # Deeper than what Python would remove.
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_a_name_with_control_characters_stays_on_its_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a\nb\x1b[2J")
    with pytest.raises(Invalid, match=r"a\\nb\\x1b\[2J': is a named pipe") as caught:
        list_sources({"": tmp_path})
    assert caught.value.message.isprintable()


def test_the_same_directory_twice_is_no_loop(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("f")
    (tmp_path / "e").symlink_to(tmp_path / "d")
    assert _paths(list_sources({"": tmp_path})) == ["d/f", "e/f"]


def test_what_cannot_be_stored_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="absent: cannot be read: No such file"):
        list_sources({"": tmp_path / "absent"})
    (tmp_path / "dangling").symlink_to(tmp_path / "absent")
    with pytest.raises(Invalid, match="dangling: is a link to .*/absent, which does not exist"):
        list_sources({"": tmp_path})
    (tmp_path / "dangling").unlink()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Invalid, match="pipe: is a named pipe; leave it out") as caught:
        list_sources({"": tmp_path})
    assert caught.value.message.endswith(" (--links skip leaves it out)")


def test_files_that_are_named_come_before_directories(tmp_path: Path) -> None:
    for name in ("b/in", "c", "a"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    listing = list_sources({"b": tmp_path / "b", "c": tmp_path / "a", "d/e": tmp_path / "c"})
    ((place, _), *_) = listing.placed()
    assert [one.source for one in listing.found(place, 0, 2)] == [
        str(tmp_path / "a"),
        str(tmp_path / "b/in"),
    ]
    assert _paths(listing) == ["c", "b/in", "d/e"]


def test_one_path_inside_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(Invalid, match="d: another path is to be stored inside this one"):
        list_sources({"d": tmp_path / "d", "d/e": tmp_path})


def test_a_file_needs_a_name(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("f")
    with pytest.raises(Invalid, match="a file needs a name"):
        list_sources({"": tmp_path / "f"})


def _troubled(directory: Path) -> Path:
    """A directory with a file, and entries of each kind that cannot be stored."""
    (directory / "d").mkdir(parents=True)
    (directory / "good").write_text("x")
    (directory / "dangling").symlink_to("absent")
    (directory / "d" / "self").symlink_to(".")
    os.mkfifo(directory / "d" / "pipe")
    return directory


def test_all_entries_that_cannot_be_stored_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="3 entries cannot be stored; take them out") as caught:
        list_sources({"": _troubled(tmp_path)})
    for name in (
        "absent, which does not exist",
        "d/self: a symbolic link",
        "d/pipe: is a named pipe",
    ):
        assert name in caught.value.message
    assert caught.value.message.count("; ") >= 3
    assert "good" not in caught.value.message


def test_entries_that_cannot_be_stored_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to(_troubled(tmp_path / "in") / "good")
    listing = list_sources({"": tmp_path}, links=LinkPolicy.SKIP, at_once=1)
    assert _paths(listing) == ["link", "in/good"]
    assert listing.count == 2
    assert listing.omitted.count == 3


def test_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    (tmp_path / "link").symlink_to("f")
    with pytest.raises(Invalid, match="link: is a symbolic link"):
        list_sources({"": tmp_path}, links=LinkPolicy.FAIL)


@pytest.mark.parametrize("links", list(LinkPolicy))
def test_a_directory_that_cannot_be_read_is_never_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: LinkPolicy
) -> None:
    (tmp_path / "d").mkdir()
    scandir = os.scandir

    def refuse(path: Path) -> os._ScandirIterator[str]:
        if path.name == "d":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(str(path))

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refuse)
        with pytest.raises(Invalid, match="d: cannot be read: Permission denied"):
            list_sources({"": tmp_path}, links=links)


def test_names_that_are_not_utf_8_are_spelled(tmp_path: Path) -> None:
    for name in (b"a", b"\xff", b"\xe9/b"):
        path = tmp_path / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name)
    listing = list_sources({"": tmp_path})
    assert _paths(listing) == ["a", "%raw-%FF", "%raw-%E9/b"]
    ((place, _), *_) = listing.placed()
    sources = [Path(file.source).read_bytes() for file in listing.found(place, 0, 2)]
    assert sources == [b"a", b"\xff"]
    assert listing.renamed.count == 2


def test_a_spelled_name_is_stored_again_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "%raw-%FF").write_bytes(b"copy")
    listing = list_sources({"": tmp_path})
    assert (_paths(listing), listing.renamed.count) == (["%raw-%FF"], 0)
    (tmp_path / os.fsdecode(b"\xff")).write_bytes(b"another")
    assert sorted(_paths(list_sources({"": tmp_path}))) == ["%raw-%25raw-%25FF", "%raw-%FF"]


def test_a_file_that_says_that_it_is_empty_and_is_not_is_named() -> None:
    with pytest.raises(Invalid, match="/proc/self/status: says that it is empty and has content"):
        list_sources({"status": Path("/proc/self/status")})


def test_a_source_that_cannot_be_stored_is_left_out_too(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "f").write_text("x")
    sources = {"pipe": tmp_path / "pipe", "f": tmp_path / "f"}
    listing = list_sources(sources, links=LinkPolicy.SKIP)
    assert (_paths(listing), listing.omitted.count) == (["f"], 1)
    # Without advice to do what was done.
    assert listing.omitted.lines() == (f"{tmp_path / 'pipe'}: is a named pipe",)
    assert _paths(list_sources({"pipe": tmp_path / "pipe"}, links=LinkPolicy.SKIP)) == []


def test_a_link_to_a_directory_above_the_source_is_a_circle(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("x")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "f").write_text("x")
    (tmp_path / "project" / "up").symlink_to("..")
    with pytest.raises(Invalid, match="up: a symbolic link leads back to a directory above it"):
        list_sources({"": tmp_path / "project"})
    listing = list_sources({"": tmp_path / "project"}, links=LinkPolicy.SKIP)
    assert _paths(listing) == ["f"]
