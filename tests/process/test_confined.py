"""Trees whose owner is an attacker: links, depth, fifos, modes, mounts."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from lading.process.cancellation import Stopped
from lading.process.confined import ConfinedTree
from tests.process.deep_trees import make_deep


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
        make_deep(top, 10)
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
