from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import Bind
from lading.supervisor.engines.mount_points import make_targets, make_volumes, volume_binds


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    made = tmp_path / "rootfs"
    made.mkdir()
    (made / "file").touch()
    (made / "data").symlink_to("/far/away")
    (made / "up").symlink_to("../../../elsewhere")
    (made / "round").symlink_to("round")
    return made


def test_volumes_are_made_below_the_root(rootfs: Path, tmp_path: Path) -> None:
    own = os.geteuid()
    make_volumes(rootfs, ["/data", "/data/deep", "/up/x", "/file", "/file/x"], owner=own)
    assert (rootfs / "far/away/deep").is_dir()
    assert (rootfs / "elsewhere/x").is_dir()
    assert (rootfs / "file").is_file()
    assert [one.name for one in tmp_path.iterdir()] == ["rootfs"]


def test_a_link_without_end_is_an_error(rootfs: Path) -> None:
    with pytest.raises(OSError, match="symbolic links") as caught:
        make_volumes(rootfs, ["/round/x"], owner=os.geteuid())
    assert caught.value.errno == errno.ELOOP


def test_targets_are_made_where_links_lead_to_nothing(rootfs: Path, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    binds = [
        Bind(str(tmp_path), "/data", False),
        Bind(str(tmp_path / "f"), "/up", False),
        Bind(str(tmp_path), "/none/x", False),
        Bind(str(tmp_path), "/file/x", False),
    ]
    make_targets(rootfs, binds, owner=os.geteuid())
    assert (rootfs / "far/away").is_dir()
    assert (rootfs / "elsewhere").is_file()
    assert not (rootfs / "none").exists()


@pytest.mark.parametrize(
    ("target", "is_file", "kinds"),
    [
        ("/tmp", True, "/tmp]: is a directory in the image, and the mount is a file; choose"),
        ("/file", False, "/file]: is a file in the image, and the mount is a directory; choose"),
        ("/tmp", False, ""),
        ("/file", True, ""),
        ("/tmp/new", True, ""),
        ("/gone", True, ""),
    ],
)
def test_a_mount_and_the_entry_below_it_are_of_one_kind(
    rootfs: Path, tmp_path: Path, target: str, is_file: bool, kinds: str
) -> None:
    (rootfs / "tmp").mkdir()
    (rootfs / "gone").symlink_to("nowhere")
    source = tmp_path / "f"
    source.touch()
    bind = Bind(str(source if is_file else tmp_path), target, True)
    if not kinds:
        make_targets(rootfs, [bind], owner=os.geteuid())
        return
    with pytest.raises(ExecutionError, match=re.escape(kinds)) as caught:
        make_targets(rootfs, [bind], owner=os.geteuid())
    assert caught.value.failure is Failure.USER


def test_the_kind_of_an_entry_that_another_mount_hides_is_no_matter(
    rootfs: Path, tmp_path: Path
) -> None:
    (rootfs / "tmp/f").mkdir(parents=True)
    (tmp_path / "f").touch()
    outer, inner = Bind(str(tmp_path), "/tmp", False), Bind(str(tmp_path / "f"), "/tmp/f", True)
    make_targets(rootfs, [outer, inner], owner=os.geteuid())


def test_volumes_in_the_output_are_scratch_beside_it(tmp_path: Path) -> None:
    binds = [Bind("/o", "/out", False), Bind("/i", "/in", True), Bind("/m", "/out/m", False)]
    volumes = ["/data", "/in/x", "/out", "/out/deep", "/out/m"]
    (made,) = volume_binds(volumes, binds, tmp_path / "volumes")
    assert (made.target, made.readonly) == ("/out/deep", False)
    assert list(Path(made.source).iterdir()) == []
