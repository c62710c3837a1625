"""Forms of layers that builders other than Docker write."""

from __future__ import annotations

import errno
import io
import os
import stat
import tarfile
import tempfile
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.inputs.merged_layers import MergedLayers
from lading.supervisor.inputs.unpack import unpack_layer
from tests.reality import need
from tests.supervisor.inputs.test_unpack import attributed, layer_of, member, pax, unpack

pytestmark = pytest.mark.usefixtures("as_root")


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (
            layer_of(member("sda", tarfile.BLKTYPE, devmajor=8, devminor=0)),
            "'sda' is left out: the block device 8:0",
        ),
        (
            layer_of(member("mem", tarfile.CHRTYPE, devmajor=1, devminor=1)),
            "'mem' is left out: the character device 1:1",
        ),
        (attributed(tarfile.REGTYPE, "com.apple.provenance"), "which Linux does not know"),
        (attributed(tarfile.DIRTYPE, "foo.bar"), "which Linux does not know"),
        (attributed(tarfile.SYMTYPE, "user.x"), "cannot be stored"),
        (attributed(tarfile.FIFOTYPE, "user.x"), "cannot be stored"),
        (attributed(tarfile.CHRTYPE, "user.x"), "cannot be stored"),
        (attributed(tarfile.REGTYPE, "security.capability"), "cannot be stored"),
        (attributed(tarfile.REGTYPE, "system.posix_acl_access"), "cannot be stored"),
        (attributed(tarfile.REGTYPE, f"user.{'n' * 300}"), "cannot be stored"),
    ],
)
def test_what_a_container_cannot_have_is_left_out_and_told(
    tmp_path: Path, layer: bytes, said: str
) -> None:
    found = unpack_layer(io.BytesIO(layer), tmp_path / "t", limit=1 << 20)
    (remark,) = found.left_out.lines()
    assert said in remark


def test_an_attribute_without_room_is_left_out() -> None:
    # Temporary files of tests may be in memory, where attributes have more room.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        need(_has_small_attributes(folder), "a file system with small attributes, such as ext4")
        layer = attributed(tarfile.REGTYPE, "user.x", "y" * 20_000)
        found = unpack_layer(io.BytesIO(layer), folder / "t", limit=1 << 20)
        assert "its 20000 bytes cannot be stored" in found.left_out.sentences[0]
        assert (folder / "t" / "e").is_file()


@pytest.mark.parametrize("is_first", [True, False])
def test_a_whiteout_hides_lower_layers_only(tmp_path: Path, is_first: bool) -> None:
    fresh = [member("d", tarfile.DIRTYPE, mode=0o755), member("d/new", size=1), member("f", size=1)]
    marks = [member(".wh.d"), member(".wh.f")]
    unpack(layer_of(*(marks + fresh if is_first else fresh + marks)), tmp_path / "t")
    assert os.getxattr(tmp_path / "t" / "d", "trusted.overlay.opaque") == b"y"
    assert [one.name for one in (tmp_path / "t" / "d").iterdir()] == ["new"]
    assert (tmp_path / "t" / "f").is_file()


def test_a_directory_that_its_entries_imply_replaces_a_whiteout(tmp_path: Path) -> None:
    unpack(layer_of(member(".wh.d"), member("d/new", size=1)), tmp_path / "t")
    assert os.getxattr(tmp_path / "t" / "d", "trusted.overlay.opaque") == b"y"


def test_a_label_is_no_file(tmp_path: Path) -> None:
    unpack(layer_of(member("../backup", b"V"), member("f", size=1)), tmp_path / "t")
    assert [one.name for one in (tmp_path / "t").iterdir()] == ["f"]


def below(tmp_path: Path, layer: bytes) -> MergedLayers:
    unpack(layer, tmp_path / "low")
    return MergedLayers([tmp_path / "low"])


def test_hard_links_to_a_lower_layer_are_copies(tmp_path: Path) -> None:
    file = pax("d/f", {"SCHILY.xattr.user.a": "b"}, size=3)
    file.uid, file.mtime, file.mode = 7, 5, 0o640
    low = layer_of(file, member("l", tarfile.SYMTYPE, linkname="d"), member("p", tarfile.FIFOTYPE))
    links = [("x", "l/f"), ("y", "l"), ("z", "p"), ("w", "x")]
    high = layer_of(*(member(name, tarfile.LNKTYPE, linkname=to) for name, to in links))
    with below(tmp_path, low) as merged:
        found = unpack_layer(io.BytesIO(high), tmp_path / "t", limit=1 << 20, below=merged)
    assert found.is_bound
    status = (tmp_path / "t" / "x").stat()
    assert (status.st_uid, status.st_mtime, status.st_size) == (7, 5, 3)
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert os.getxattr(tmp_path / "t" / "x", "user.a") == b"b"
    assert (tmp_path / "t" / "w").samefile(tmp_path / "t" / "x")
    assert (tmp_path / "t" / "y").readlink() == Path("d")
    assert stat.S_ISFIFO((tmp_path / "t" / "z").stat().st_mode)
    assert not (tmp_path / "t" / "d").exists()


@pytest.mark.parametrize("target", ["d", "none", "l/none"])
def test_hard_links_to_nothing_below_are_refused(tmp_path: Path, target: str) -> None:
    low = layer_of(
        member("d", tarfile.DIRTYPE, mode=0o755), member("l", tarfile.SYMTYPE, linkname="d")
    )
    high = layer_of(member("x", tarfile.LNKTYPE, linkname=target))
    with below(tmp_path, low) as merged, pytest.raises(ExecutionError, match="'x' is a link to"):
        unpack_layer(io.BytesIO(high), tmp_path / "t", limit=1 << 20, below=merged)


def test_copies_of_lower_files_are_counted(tmp_path: Path) -> None:
    low = layer_of(member("f", size=3000))
    high = layer_of(*(member(f"x{n}", tarfile.LNKTYPE, linkname="f") for n in range(20)))
    with below(tmp_path, low) as merged, pytest.raises(ExecutionError, match="larger than the"):
        unpack_layer(io.BytesIO(high), tmp_path / "t", limit=30_000, below=merged)


def test_a_whiteout_of_nothing_is_left_out(tmp_path: Path) -> None:
    low = layer_of(member("d/f", size=3))
    high = layer_of(member("d/.wh.f"), member("d/.wh.none"), member("e/.wh.x"))
    with below(tmp_path, low) as merged:
        found = unpack_layer(io.BytesIO(high), tmp_path / "t", limit=1 << 20, below=merged)
    assert found.is_bound
    assert sorted(one.name for one in (tmp_path / "t").rglob("*")) == ["d", "f"]


def _has_small_attributes(folder: Path) -> bool:
    try:
        os.setxattr(folder, "user.probe", bytes(20_000))
    except OSError as error:
        return error.errno == errno.ENOSPC
    return False
