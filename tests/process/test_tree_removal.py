from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from lading.process import tree_removal
from lading.process.cancellation import Stopped
from lading.process.confined import ConfinedTree
from tests.process.deep_trees import make_deep
from tests.reality import need_root


class TestRemoving:
    def test_everything_goes_and_links_are_not_followed(self, top: Path, secret: Path) -> None:
        (top / "a" / "b").mkdir(parents=True)
        (top / "a" / "b" / "file").touch()
        (top / "a" / "link").symlink_to(secret)
        os.mkfifo(top / "a" / "pipe")
        tree_removal.remove(top)
        assert not top.exists()
        assert (secret / "secret").exists()

    @pytest.mark.parametrize("depth", [40, 3000])
    def test_depth_is_no_obstacle(self, top: Path, depth: int) -> None:
        make_deep(top, depth)
        (top / ".lading-moved-1").mkdir()
        tree_removal.remove(top)
        assert not top.exists()

    def test_wide_trees_go(self, top: Path) -> None:
        for number in range(300):
            (top / str(number) / "x").mkdir(parents=True)
            (top / str(number) / "file").touch()
        tree_removal.remove(top)
        assert not top.exists()

    def test_a_file_and_nothing_are_removed_too(self, top: Path) -> None:
        (top / "file").touch()
        tree_removal.remove(top / "file")
        tree_removal.remove(top / "file")
        tree_removal.remove(top / "none" / "file")
        assert list(top.iterdir()) == []

    def test_one_entry_goes_last(self, top: Path) -> None:
        (top / "a").mkdir()
        (top / "lock").touch()
        with ConfinedTree.open(top) as tree:
            tree.clear(keep="lock")
        assert [one.name for one in top.iterdir()] == ["lock"]
        tree_removal.remove(top, keep="lock")
        assert not top.exists()
        tree_removal.remove(top, keep="lock")

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
                tree_removal.remove(top, keep="lock")
        assert sorted(one.name for one in top.iterdir()) == ["a", "lock"]
        (top / "lock").unlink()
        (top / "lock" / "x").mkdir(parents=True)
        tree_removal.remove(top, keep="lock")
        assert not top.exists()

    def test_the_directory_that_holds_it_may_be_a_link(self, top: Path, tmp_path: Path) -> None:
        (top / "a").mkdir()
        (tmp_path / "link").symlink_to(top)
        tree_removal.remove(tmp_path / "link" / "a")
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
        tree_removal.remove(top)
        assert not top.exists()
        assert (secret / "secret").exists()

    def test_it_can_be_stopped(self, top: Path) -> None:
        (top / "a").mkdir()
        with pytest.raises(Stopped):
            tree_removal.remove(top, stop=lambda: True)
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
                tree_removal.remove(top)
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
                if os.geteuid() == 0:
                    os.setuid(65534)
                with ConfinedTree.open(".") as tree:
                    tree.remove("a")
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert list(top.iterdir()) == []
