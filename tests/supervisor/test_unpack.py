from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.unpack import unpack_layer
from lading.testing.images import make_layer

pytestmark = pytest.mark.usefixtures("as_root")


def member(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for key, value in fields.items():
        setattr(made, key, value)
    return made


def layer_of(*members: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for one in members:
            tar.addfile(one, io.BytesIO(b"x" * one.size))
    return buffer.getvalue()


def unpack(layer: bytes, target: Path) -> str:
    return unpack_layer(io.BytesIO(layer), target)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_layer_is_unpacked_and_hashed(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    layer = make_layer({"d": None, "d/f": b"content", "l": "d/f"}, modes={"d/f": 0o4750})
    assert unpack(pack(layer), tmp_path / "t") == hashlib.sha256(layer).hexdigest()
    assert (tmp_path / "t" / "d" / "f").read_bytes() == b"content"
    assert stat.S_IMODE((tmp_path / "t" / "d" / "f").stat().st_mode) == 0o4750
    assert (tmp_path / "t" / "l").readlink() == Path("d/f")


def test_owners_times_attributes_and_devices(tmp_path: Path) -> None:
    file = member("f", size=1, uid=12, gid=34, mtime=5.5)
    file.pax_headers = {"SCHILY.xattr.user.note": "hi"}
    folder = member("d", tarfile.DIRTYPE, mode=0o700, mtime=7)
    devices = (
        member("null", tarfile.CHRTYPE, devmajor=1, devminor=3),
        member("b", tarfile.BLKTYPE),
        member("p", tarfile.FIFOTYPE),
    )
    unpack(layer_of(folder, file, member("d/inner", size=1), *devices), tmp_path / "t")
    found = (tmp_path / "t" / "f").stat()
    assert (found.st_uid, found.st_gid, found.st_mtime) == (12, 34, 5.5)
    assert os.getxattr(tmp_path / "t" / "f", "user.note") == b"hi"
    assert (tmp_path / "t" / "d").stat().st_mtime == 7
    assert (tmp_path / "t" / "null").stat().st_rdev == os.makedev(1, 3)
    assert stat.S_ISFIFO((tmp_path / "t" / "p").stat().st_mode)


def test_whiteouts_become_what_overlayfs_understands(tmp_path: Path) -> None:
    unpack(make_layer({"d/.wh.gone": b"", "e/.wh..wh..opq": b"", "e/new": b"n"}), tmp_path / "t")
    gone = (tmp_path / "t" / "d" / "gone").stat()
    assert (stat.S_ISCHR(gone.st_mode), gone.st_rdev) == (True, 0)
    assert os.getxattr(tmp_path / "t" / "e", "trusted.overlay.opaque") == b"y"
    assert [one.name for one in (tmp_path / "t" / "e").iterdir()] == ["new"]


def test_hard_links(tmp_path: Path) -> None:
    unpack(layer_of(member("a", size=1), member("b", tarfile.LNKTYPE, linkname="./a")), tmp_path / "t")
    assert (tmp_path / "t" / "a").samefile(tmp_path / "t" / "b")


def test_later_members_replace_earlier_ones(tmp_path: Path) -> None:
    layer = layer_of(
        member("a", size=1),
        member("a", tarfile.DIRTYPE, mode=0o755),
        member("a/x", size=1),
        member("a", size=2),
        member("l", tarfile.SYMTYPE, linkname="a"),
        member("l", tarfile.DIRTYPE, mode=0o755),
        member("f", size=1),
        member("f/below", size=1),
        member("./", tarfile.DIRTYPE, mode=0o711),
    )
    unpack(layer, tmp_path / "t")
    assert (tmp_path / "t" / "a").read_bytes() == b"xx"
    assert (tmp_path / "t" / "l").is_dir()
    assert (tmp_path / "t" / "f" / "below").is_file()
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o711


@pytest.mark.parametrize("target", ["{outside}", "/../../../../../../..{outside}", "../../../../../../../..{outside}"])
def test_links_cannot_lead_out(tmp_path: Path, target: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = member("l", tarfile.SYMTYPE, linkname=target.format(outside=outside))
    unpack(layer_of(link, member("l/file", size=1), member("l/.wh.x")), tmp_path / "t")
    assert list(outside.iterdir()) == []
    assert (tmp_path / "t" / str(outside)[1:] / "file").is_file()


def test_links_inside_the_layer_are_followed(tmp_path: Path) -> None:
    layer = layer_of(
        member("usr/lib", tarfile.DIRTYPE, mode=0o755),
        member("lib", tarfile.SYMTYPE, linkname="./usr/bin/../lib"),
        member("lib/x", size=1),
    )
    unpack(layer, tmp_path / "t")
    assert (tmp_path / "t" / "usr" / "lib" / "x").is_file()


@pytest.mark.parametrize(
    ("layer", "fault"),
    [
        (b"not a tar archive" * 100, "damaged"),
        (b"\x28\xb5\x2f\xfd" + b"0" * 600, "zstd"),
        (b"\x1f\x8b" + b"0" * 600, "damaged"),
        (layer_of(member("../x", size=1)), "leads out"),
        (layer_of(member("a", tarfile.LNKTYPE, linkname="none")), "does not have"),
        (layer_of(member("a", tarfile.LNKTYPE, linkname="../../etc/passwd")), "leads out"),
        (layer_of(member("a", b"Z")), "unknown type"),
        (layer_of(member("a", tarfile.SYMTYPE, linkname="a"), member("a/b", size=1)), "too many links"),
        (gzip.compress(layer_of(member("a", size=100000)))[:-50], "damaged"),
    ],
)
def test_what_is_no_layer_is_refused(tmp_path: Path, layer: bytes, fault: str) -> None:
    with pytest.raises(ExecutionError, match=fault):
        unpack(layer, tmp_path / "t")
