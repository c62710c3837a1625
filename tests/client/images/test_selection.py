"""Selected paths come with everything that leads to them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lading.client.images.host_files import Selection
from lading.client.images.layer_writing import LayerEntry


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small machine with merged /usr and alternatives."""
    for folder in ("usr/bin", "etc/alternatives", "usr/lib/__pycache__", "usr/lib/sub"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "usr/bin/mawk").write_text("ELF")
    (tmp_path / "usr/bin/mawk").chmod(0o4755)
    (tmp_path / "usr/bin/awk").symlink_to("/etc/alternatives/awk")
    (tmp_path / "etc/alternatives/awk").symlink_to("../../usr/bin/mawk")
    (tmp_path / "usr/lib/__pycache__/x.pyc").write_text("")
    (tmp_path / "usr/lib/sub/x.py").write_text("")
    return tmp_path


def test_links_on_the_way_and_their_targets_come_along(root: Path) -> None:
    selection = Selection(root)
    assert selection.add("/bin/awk") == "/usr/bin/mawk"
    entries = {entry.path: entry for entry in selection.entries()}
    links = {"/bin", "/usr/bin/awk", "/etc/alternatives/awk"}
    assert set(entries) == {
        "/etc",
        "/etc/alternatives",
        "/usr",
        "/usr/bin",
        "/usr/bin/mawk",
        *links,
    }
    assert (entries["/bin"].target, entries["/usr/bin/awk"].target) == (
        "usr/bin",
        "/etc/alternatives/awk",
    )
    assert entries["/usr/bin/mawk"].mode == stat.S_IFREG | 0o755, "no set-user-id bits in images"


def test_what_is_not_there_is_not_selected(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    (root / "file").write_text("")
    selection = Selection(root)
    for path in ("/absent", "/absent/deeper", "/loop", "/loop/x", "/file/x"):
        assert selection.add(path) is None
    assert [
        entry.path for entry in selection.entries() if entry.path not in ("/loop", "/file")
    ] == []


def test_sockets_and_devices_are_not_selected(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert Selection(root).add("/pipe") is None


def test_a_tree_without_what_caches_leave(root: Path) -> None:
    selection = Selection(root)
    selection.add_tree("/usr/lib")
    assert list(selection.files()) == ["/usr/lib/sub/x.py"]


def test_put_makes_parents(root: Path) -> None:
    selection = Selection(root)
    selection.put(LayerEntry(path="/a/b/c", mode=stat.S_IFREG | 0o644, content=b"x"))
    selection.put(LayerEntry(path="/a/d", mode=stat.S_IFDIR | 0o1777))
    assert [entry.path for entry in selection.entries()] == ["/a", "/a/b", "/a/b/c", "/a/d"]
    assert selection.add("/a/b") is None, "it is not on this machine"


def test_private_files(root: Path) -> None:
    (root / "key").write_text("secret")
    (root / "key").chmod(0o600)
    selection = Selection(root)
    assert selection.is_private("/key")
    assert not selection.is_private("/usr/bin/mawk")
    assert not selection.is_private("/absent")
