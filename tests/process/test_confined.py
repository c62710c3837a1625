"""Trees whose owner is an attacker: links, depth, fifos, modes, mounts."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from lading.process import confined
from lading.process.confined import ConfinedTree, Stopped
from tests.reality import need_root


@pytest.fixture
def top(tmp_path: Path) -> Path:
    place = tmp_path / "top"
    place.mkdir()
    return place


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A directory of the host with a file in it."""
    place = tmp_path / "host"
    place.mkdir()
    (place / "secret").write_text("of the host")
    return place


def _deep(top: Path, depth: int) -> None:
    """A chain of directories, deeper than a path can say, with a file at its end."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 50, dir_fd=here)
        below = os.open("d" * 50, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)


class TestReading:
    def test_files_below_are_read(self, top: Path) -> None:
        (top / "a" / "b").mkdir(parents=True)
        (top / "a" / "b" / "c").write_text("content")
        with ConfinedTree.open(top) as tree:
            assert tree.read("a/b/c", 4) == b"cont"
            assert stat.S_ISREG(tree.stat("a/b/c").st_mode)
            assert stat.S_ISDIR(tree.stat().st_mode)
            assert sorted(entry.name for entry in tree.scan("a")) == ["b"]

    @pytest.mark.parametrize("path", ["link/secret", "file", "a/link/secret"])
    def test_no_link_is_followed(self, top: Path, secret: Path, path: str) -> None:
        (top / "a").mkdir()
        (top / "link").symlink_to(secret)
        (top / "a" / "link").symlink_to(secret)
        (top / "file").symlink_to(secret / "secret")
        with ConfinedTree.open(top) as tree, pytest.raises(OSError) as caught:
            tree.read(path, 100)
        assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)

    @pytest.mark.parametrize("path", ["../host/secret", "/etc/passwd", "a//b", ".", "a/.."])
    def test_only_plain_relative_paths_are_taken(self, top: Path, path: str) -> None:
        with ConfinedTree.open(top) as tree, pytest.raises(OSError, match="plain relative path"):
            tree.open_tree(path)

    def test_the_top_itself_may_not_be_a_link(self, top: Path, secret: Path) -> None:
        (top / "link").symlink_to(secret)
        with pytest.raises(OSError):
            ConfinedTree.open(top / "link")

    def test_a_directory_swapped_after_it_was_opened_stays_what_it_was(
        self, top: Path, secret: Path
    ) -> None:
        (top / "a").mkdir()
        (top / "a" / "secret").write_text("of the container")
        with ConfinedTree.open(top) as tree, tree.open_tree("a") as below:
            (top / "a").rename(top / "b")
            (top / "a").symlink_to(secret)
            assert below.read("secret", 100) == b"of the container"

    def test_a_fifo_does_not_hold_the_reader(self, top: Path) -> None:
        os.mkfifo(top / "pipe")
        with ConfinedTree.open(top) as tree, pytest.raises(OSError, match="not a regular file"):
            tree.open_file("pipe")

    def test_the_top_has_no_parent(self, top: Path) -> None:
        with (
            ConfinedTree.open(top) as tree,
            pytest.raises(OSError, match="no parent"),
            tree.parent(""),
        ):
            pass

    def test_closing_twice_is_no_error(self, top: Path) -> None:
        tree = ConfinedTree.open(top)
        tree.close()
        tree.close()


class TestWriting:
    def test_directories_are_made(self, top: Path) -> None:
        with ConfinedTree.open(top) as tree, tree.parent("a/b/c", make=0o750) as (folder, name):
            os.mkdir(name, dir_fd=folder)
        assert (top / "a" / "b" / "c").is_dir()
        assert stat.S_IMODE((top / "a" / "b").stat().st_mode) == 0o750

    def test_nothing_is_written_through_a_link(self, top: Path, secret: Path) -> None:
        (top / "link").symlink_to(secret)
        with ConfinedTree.open(top) as tree:
            for path in ("link/new", "link/new/deeper"):
                with pytest.raises(OSError), tree.parent(path, make=0o755):
                    pass
        assert sorted(one.name for one in secret.iterdir()) == ["secret"]


class TestWalking:
    def test_every_entry_is_seen_once(self, top: Path, secret: Path) -> None:
        (top / "a" / "b").mkdir(parents=True)
        (top / "a" / "b" / "file").touch()
        (top / "a" / "link").symlink_to(secret)
        with ConfinedTree.open(top) as tree:
            found = [(folder, entry.name) for folder, entry in tree.walk(max_depth=10)]
        assert sorted(found) == [("", "a"), ("a", "b"), ("a", "link"), ("a/b", "file")]

    def test_depth_is_bounded(self, top: Path) -> None:
        (top / "a" / "b" / "c").mkdir(parents=True)
        with ConfinedTree.open(top) as tree:
            assert len(list(tree.walk(max_depth=3))) == 3
            with pytest.raises(OSError, match="more than 2 deep"):
                list(tree.walk(max_depth=2))

    def test_it_can_be_stopped(self, top: Path) -> None:
        (top / "a").touch()
        with ConfinedTree.open(top) as tree, pytest.raises(Stopped):
            list(tree.walk(max_depth=10, stop=lambda: True))

    def test_a_directory_that_goes_meanwhile_is_left_out(self, top: Path) -> None:
        (top / "a").mkdir()
        with ConfinedTree.open(top) as tree:
            walk = tree.walk(max_depth=10)
            assert next(walk)[1].name == "a"
            (top / "a").rmdir()
            assert list(walk) == []


class TestRemoving:
    def test_everything_goes_and_links_are_not_followed(self, top: Path, secret: Path) -> None:
        (top / "a" / "b").mkdir(parents=True)
        (top / "a" / "b" / "file").touch()
        (top / "a" / "link").symlink_to(secret)
        os.mkfifo(top / "a" / "pipe")
        confined.remove(top)
        assert not top.exists()
        assert (secret / "secret").exists()

    @pytest.mark.parametrize("depth", [40, 3000])
    def test_depth_is_no_obstacle(self, top: Path, depth: int) -> None:
        _deep(top, depth)
        (top / ".lading-moved-1").mkdir()
        confined.remove(top)
        assert not top.exists()

    def test_wide_trees_go(self, top: Path) -> None:
        for number in range(300):
            (top / str(number) / "x").mkdir(parents=True)
            (top / str(number) / "file").touch()
        confined.remove(top)
        assert not top.exists()

    def test_a_file_and_nothing_are_removed_too(self, top: Path) -> None:
        (top / "file").touch()
        confined.remove(top / "file")
        confined.remove(top / "file")
        confined.remove(top / "none" / "file")
        assert list(top.iterdir()) == []

    def test_one_entry_goes_last(self, top: Path) -> None:
        (top / "a").mkdir()
        (top / "lock").touch()
        with ConfinedTree.open(top) as tree:
            tree.clear(keep="lock")
        assert [one.name for one in top.iterdir()] == ["lock"]
        confined.remove(top, keep="lock")
        assert not top.exists()
        confined.remove(top, keep="lock")

    def test_the_last_entry_stays_while_others_do(
        self, top: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (top / "a").mkdir()
        (top / "lock").touch()
        (top / "a" / "lock").touch()
        real = os.unlink

        def unlink(name: str, *, dir_fd: int) -> None:
            if name == "lock" and (top / "a" / "lock").exists():
                raise OSError(errno.EIO, "Input/output error")
            real(name, dir_fd=dir_fd)

        with monkeypatch.context() as patched:
            patched.setattr(os, "unlink", unlink)
            with pytest.raises(OSError, match="Input/output"):
                confined.remove(top, keep="lock")
        assert sorted(one.name for one in top.iterdir()) == ["a", "lock"]
        (top / "lock").unlink()
        (top / "lock" / "x").mkdir(parents=True)
        confined.remove(top, keep="lock")
        assert not top.exists()

    def test_the_directory_that_holds_it_may_be_a_link(self, top: Path, tmp_path: Path) -> None:
        (top / "a").mkdir()
        (tmp_path / "link").symlink_to(top)
        confined.remove(tmp_path / "link" / "a")
        assert list(top.iterdir()) == []

    def test_what_is_swapped_meanwhile_goes_too(
        self, top: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (top / "a").mkdir()
        real = os.open

        def swap(name: str, *more: Any, **further: Any) -> int:
            if name == "a" and not (top / "a").is_symlink():
                (top / "a").rmdir()
                (top / "a").symlink_to(secret)
            return real(name, *more, **further)

        monkeypatch.setattr(os, "open", swap)
        confined.remove(top)
        assert not top.exists()
        assert (secret / "secret").exists()

    def test_it_can_be_stopped(self, top: Path) -> None:
        (top / "a").mkdir()
        with pytest.raises(Stopped):
            confined.remove(top, stop=lambda: True)
        assert (top / "a").exists()

    def test_what_is_mounted_stays_and_the_rest_goes(self, top: Path) -> None:
        need_root()
        from lading.supervisor import linux

        (top / "m").mkdir()
        (top / "a" / "b").mkdir(parents=True)
        linux.mount("tmpfs", str(top / "m"), "tmpfs", "size=64k")
        try:
            (top / "m" / "file").touch()
            with pytest.raises(OSError, match="mounted"):
                confined.remove(top)
            with (
                pytest.raises(OSError),
                ConfinedTree.open(top.parent) as tree,
                tree.open_tree("top") as it,
            ):
                it.clear()
            assert [one.name for one in top.iterdir()] == ["m"]
            assert (top / "m" / "file").exists()
        finally:
            linux.unmount(str(top / "m"))

    def test_modes_are_no_obstacle_without_root(self, top: Path) -> None:
        (top / "a" / "b").mkdir(parents=True)
        (top / "a" / "file").touch()
        (top / "a" / "b").chmod(0)
        (top / "a").chmod(0o500)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                if os.geteuid() == 0:
                    for place in (top.parent, top, top / "a", top / "a" / "b"):
                        os.chown(place, 65534, 65534)
                    os.chdir(top)
                    os.setuid(65534)
                with ConfinedTree.open(".") as tree:
                    tree.remove("a")
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert list(top.iterdir()) == []


class TestRoot:
    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("etc/passwd", "root:x"),
            ("/etc/../etc/./passwd", "root:x"),
            ("../../etc/passwd", "root:x"),
            ("absolute", "root:x"),
            ("etc/relative", "root:x"),
            ("up", "root:x"),
            ("etc", ""),
            ("", ""),
            ("none", ""),
            ("circle", ""),
            ("etc/passwd/x", ""),
        ],
    )
    def test_links_are_followed_as_in_a_root_directory(
        self, top: Path, path: str, text: str
    ) -> None:
        (top / "etc").mkdir()
        (top / "etc" / "passwd").write_text("root:x:0")
        (top / "absolute").symlink_to("/etc/passwd")
        (top / "etc" / "relative").symlink_to("passwd")
        (top / "up").symlink_to("../../../etc/passwd")
        (top / "circle").symlink_to("circle")
        assert confined.read_text_in_root(top, path, 6) == text


def test_a_survey_opens_each_directory_once_and_no_link(top: Path, secret: Path) -> None:
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").write_text("x")
    (top / "out").symlink_to(secret)
    with ConfinedTree.open(top) as tree:
        found = list(tree.survey(max_depth=3))
        assert sorted(stat.S_IFMT(one.st_mode) for one in found) == [
            stat.S_IFDIR,
            stat.S_IFDIR,
            stat.S_IFREG,
            stat.S_IFLNK,
        ]
        with pytest.raises(Stopped):
            list(tree.survey(max_depth=3, stop=lambda: True))
        before = len(list(Path("/proc/self/fd").iterdir()))
        _deep(top, 10)
        with pytest.raises(OSError, match="more than 3 deep") as caught:
            list(tree.survey(max_depth=3))
        assert caught.value.errno == errno.ELOOP
        assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_survey_passes_over_what_goes_meanwhile(top: Path) -> None:
    for name in ("a", "b", "c"):
        (top / name).mkdir()
    with ConfinedTree.open(top) as tree:
        survey = tree.survey(max_depth=3)
        next(survey)
        for name in ("a", "b", "c"):
            (top / name).rmdir()
            (top / name).symlink_to("/")
        assert all(not stat.S_ISDIR(one.st_mode) for one in survey)
