from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import random
import shutil
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.inputs.merged_layers import MergedLayers
from lading.supervisor.inputs.unpack import LayerContent, hash_layer, merge_layer, unpack_layer
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


def unpack(
    layer: bytes, target: Path, *, limit: int = 1 << 20, most_members: int = 5_000_000
) -> str:
    return unpack_layer(io.BytesIO(layer), target, limit=limit, most_members=most_members).digest


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
    devices = member("null", tarfile.CHRTYPE, devmajor=1, devminor=3), member("p", tarfile.FIFOTYPE)
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
    unpack(
        layer_of(member("a", size=1), member("b", tarfile.LNKTYPE, linkname="./a")), tmp_path / "t"
    )
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


@pytest.mark.parametrize(
    "target", ["{outside}", "/../../../../../../..{outside}", "../../../../../../../..{outside}"]
)
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
        (layer_of(member("a", tarfile.LNKTYPE, linkname="none")), "which no layer up to this"),
        (layer_of(member("a", tarfile.LNKTYPE, linkname="no/ne")), "which no layer up to this"),
        (layer_of(member("a", tarfile.LNKTYPE, linkname="../../etc/passwd")), "leads out"),
        (layer_of(member("a", b"Z")), "unknown type"),
        (
            layer_of(member("a", tarfile.SYMTYPE, linkname="a"), member("a/b", size=1)),
            "too many links",
        ),
        (gzip.compress(layer_of(member("a", size=100000)), mtime=0)[:-50], "damaged"),
    ],
)
def test_what_is_no_layer_is_refused(tmp_path: Path, layer: bytes, fault: str) -> None:
    with pytest.raises(ExecutionError, match=fault):
        unpack(layer, tmp_path / "t")


def pax(name: str, headers: dict[str, str], *, size: int = 0) -> tarfile.TarInfo:
    made = member(name, size=size)
    made.pax_headers = headers
    return made


def attributed(kind: bytes, name: str, value: str = "x") -> bytes:
    """An entry of a type with an extended attribute."""
    made = member("e", kind, linkname="t", devmajor=1, devminor=3)
    made.pax_headers = {f"SCHILY.xattr.{name}": value}
    return layer_of(made)


def sparse(size: int) -> bytes:
    """A file of the old GNU format that is one hole."""
    header = bytearray(member("hole", tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"\x80" + size.to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + bytes(1024)


DEEP = "d/" * 10_000 + "f"


@pytest.mark.parametrize(
    ("layer", "fault"),
    [
        (layer_of(member(".", tarfile.SYMTYPE, linkname="/etc")), "root is not a directory"),
        (layer_of(member("./", tarfile.LNKTYPE, linkname="x")), "root is not a directory"),
        (layer_of(member("/", size=3)), "root is not a directory"),
        (
            layer_of(member("d", tarfile.DIRTYPE), member("l", tarfile.LNKTYPE, linkname="d")),
            "link to a directory",
        ),
        (layer_of(member("l", tarfile.LNKTYPE, linkname=".")), "link to a directory"),
        (layer_of(member("l", tarfile.SYMTYPE)), "link to nothing"),
        (layer_of(member("d", tarfile.DIRTYPE), member("d/.wh.")), "removes nothing below"),
        (layer_of(member("d/.wh..")), "removes nothing below"),
        (layer_of(member(".wh...")), "removes nothing below"),
        (layer_of(member("a/b/.wh...")), "removes nothing below"),
        (layer_of(member(DEEP, size=1)), "too long"),
        (layer_of(member("n" * 256, size=1)), "too long"),
        (layer_of(member("l", tarfile.SYMTYPE, linkname="x/" * 5000)), "cannot be"),
        (
            layer_of(pax("f", {"SCHILY.xattr.trusted.overlay.redirect": "/etc"})),
            "which only overlayfs may set",
        ),
        (layer_of(pax("f", {"uid": "99999999999999999999"})), "damaged"),
        (layer_of(pax("f", {"mtime": "1e300"})), "damaged"),
        (layer_of(pax("f", {"mtime": "nan"})), "damaged"),
        (layer_of(pax("f", {"SCHILY.xattr.user.x": "y" * 40_000})), "a header of"),
        (layer_of(member("f", size=(1 << 20) + 1)), "larger than the cache"),
        (
            layer_of(*(member(f"f{number}", size=1 << 18) for number in range(5))),
            "larger than the cache",
        ),
        (gzip.compress(bytes(1 << 22), mtime=0), "larger than the cache"),
        (gzip.compress(layer_of(member("f", size=1 << 24)), mtime=0), "larger than the cache"),
        (sparse(1 << 50), "larger than the cache"),
    ],
)
def test_what_is_hostile_is_refused(tmp_path: Path, layer: bytes, fault: str) -> None:
    """And nothing beside the directory changes."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "other").write_text("safe")
    with pytest.raises(ExecutionError, match=fault) as caught:
        unpack(layer, tmp_path / "cache" / "t")
    assert caught.value.failure is Failure.IMAGE
    assert len(caught.value.message) < 400
    assert "\n" not in caught.value.message
    assert (tmp_path / "cache" / "other").read_text() == "safe"
    assert sorted(
        path.name
        for path in tmp_path.rglob("*")
        if "t" not in path.parts[len(tmp_path.parts) + 1 :]
    ) == [
        "cache",
        "other",
    ]


def test_only_so_many_members(tmp_path: Path) -> None:
    layer = layer_of(*(member(f"f{number}") for number in range(4)))
    with pytest.raises(ExecutionError, match="more than 3 members"):
        unpack(layer, tmp_path / "t", most_members=3)


def test_the_same_name_many_times(tmp_path: Path) -> None:
    unpack(layer_of(*(member("f", size=number) for number in range(50))), tmp_path / "t")
    assert (tmp_path / "t" / "f").stat().st_size == 49


def test_spoiled_layers_leave_everything_else_alone(tmp_path: Path) -> None:
    chance = random.Random(5)
    good = layer_of(
        member("d", tarfile.DIRTYPE, mode=0o755),
        member("d/f", size=700),
        member("l", tarfile.SYMTYPE, linkname="../../.."),
        member("l/x", size=3),
        member("h", tarfile.LNKTYPE, linkname="d/f"),
        member("d/.wh.f"),
        pax("u", {"SCHILY.xattr.user.a": "b"}, size=5),
    )
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "other").write_text("safe")
    for number in range(400):
        spoiled = bytearray(good)
        for _ in range(chance.randint(1, 6)):
            # Headers lie at multiples of 512; checksums are set right, so that what was changed is
            # looked at.
            block = chance.randrange(len(good) // 512) * 512
            spoiled[block + chance.randrange(345)] = chance.choice(b"\0./lx0127\xff")
            head = spoiled[block : block + 512]
            head[148:156] = b" " * 8
            spoiled[block + 148 : block + 156] = b"%06o\0 " % sum(head)
        target = tmp_path / "cache" / f"t{number}"
        with contextlib.suppress(ExecutionError):
            unpack(bytes(spoiled), target)
        assert (tmp_path / "cache" / "other").read_text() == "safe"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["cache"]
        shutil.rmtree(target)
        assert [path.name for path in (tmp_path / "cache").iterdir()] == ["other"]


class Over(Exception):
    pass


def over() -> None:
    raise Over


@pytest.mark.parametrize(
    "layer",
    [
        layer_of(member("big", size=5 << 20)),
        gzip.compress(layer_of(member("big", size=5 << 20))),
        layer_of(*(member(f"{number}/" + "d/" * 250, tarfile.DIRTYPE) for number in range(5))),
    ],
    ids=["data", "packed data", "directories"],
)
def test_long_work_asks_whether_to_go_on(tmp_path: Path, layer: bytes) -> None:
    with pytest.raises(Over):
        unpack_layer(io.BytesIO(layer), tmp_path / "t", limit=1 << 30, watch=over)


def test_hashing_asks_whether_to_go_on() -> None:
    layer = gzip.compress(layer_of(member("big", size=5 << 20)))
    with pytest.raises(Over):
        hash_layer(io.BytesIO(layer), limit=1 << 30, watch=over)


def test_hashing_asks_once_for_each_four_mib() -> None:
    calls: list[None] = []
    layer = layer_of(member("big", size=40 << 20))
    hash_layer(io.BytesIO(layer), limit=1 << 30, watch=lambda: calls.append(None))
    assert len(layer) // (8 << 20) <= len(calls) <= len(layer) // (4 << 20)


def test_a_layer_says_what_it_takes(tmp_path: Path) -> None:
    layer = layer_of(member("a/b/c", size=5), member("e", size=1))
    found = unpack_layer(io.BytesIO(gzip.compress(layer)), tmp_path / "t", limit=1 << 20)
    digest = hashlib.sha256(layer).hexdigest()
    assert found == LayerContent(digest, len(layer), unpacked=6 + 4 * 4096)
    assert hash_layer(io.BytesIO(layer), limit=1 << 20) == LayerContent(digest, len(layer))


def test_layers_are_merged_into_one_directory(tmp_path: Path) -> None:
    target = tmp_path / "t"
    target.mkdir()
    for layer in (
        layer_of(member("d/old", size=1), member("e/old", size=1), member("f", size=1)),
        layer_of(
            member("d/new", size=1), member(".wh.d"), member("e/.wh..wh..opq"), member(".wh.x")
        ),
        layer_of(member("h", tarfile.LNKTYPE, linkname="f"), member("f", size=2), member("", b"V")),
    ):
        merge_layer(io.BytesIO(layer), target, limit=1 << 20)
    found = sorted(str(one.relative_to(target)) for one in target.rglob("*"))
    assert found == ["d", "d/new", "e", "f", "h"]
    assert [(target / name).stat().st_size for name in "fh"] == [2, 1]


def test_a_layer_of_an_ordinary_user_has_the_owners_of_its_range(tmp_path: Path) -> None:
    owned = [(0, 0), (12, 34), (65_537, 34), (12, 2_000_000)]
    members = [
        member(str(number), size=1, uid=user, gid=group)
        for number, (user, group) in enumerate(owned)
    ]
    link = member("4", tarfile.SYMTYPE, uid=12, gid=34)
    link.linkname = "0"
    given: list[tuple[int, int]] = []

    def chown(path: int | str, user: int, group: int, **options: object) -> None:
        given.append((user, group))

    with pytest.MonkeyPatch.context() as patched:
        # A process with such ids needs a namespace.
        patched.setattr(os, "chown", chown)
        archive = io.BytesIO(layer_of(*members, link))
        unpack_layer(archive, tmp_path / "t", limit=1 << 20, user_ids=65_537)
    assert given == [(0, 0), (12, 34), (0, 34), (12, 0), (12, 34)]


def test_a_layer_of_an_ordinary_user_has_no_owners_and_no_devices(tmp_path: Path) -> None:
    file = member("f", size=1, uid=12, gid=34, mode=0o640)
    null = member("null", tarfile.CHRTYPE, devmajor=1, devminor=3)
    fifo = member("p", tarfile.FIFOTYPE, uid=12)
    opaque, hidden = member("d/.wh..wh..opq"), member(".wh.gone")
    archive = io.BytesIO(layer_of(member("d", tarfile.DIRTYPE), file, null, fifo, opaque, hidden))
    content = unpack_layer(archive, tmp_path / "t", limit=1 << 20, user_ids=1)
    place = tmp_path / "t"
    assert (place / "f").stat().st_uid == (place / "p").lstat().st_uid == os.geteuid()
    assert stat.S_IMODE((place / "f").stat().st_mode) == 0o640
    assert not (place / "null").exists()
    assert not content.left_out.lines()
    assert os.listxattr(place / "d") == ["user.overlay.opaque"]
    assert stat.S_ISCHR((place / "gone").lstat().st_mode)
    with MergedLayers([place]) as merged:
        assert merged.find("gone") is None
        assert merged.find("d") is not None
