"""Images with hostile members through the whole of it: added, asked for by a request, refused with
the reason.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reality import need
from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
Member = tuple[str, bytes, str | bytes]
"""Name, type, and the target of a link or the content of a file."""
FILE, LINK, HARD, BLOCK = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.BLKTYPE


def _tar(*members: Member) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, kind, what in members:
            made = tarfile.TarInfo(name)
            made.type = kind
            content = what if isinstance(what, bytes) else b""
            made.linkname = what if isinstance(what, str) else ""
            made.size = len(content)
            made.devmajor, made.devminor = 8, 0
            tar.addfile(made, io.BytesIO(content))
    return buffer.getvalue()


def _image(layer: bytes) -> bytes:
    """As `docker save` writes one."""
    configuration = {
        "architecture": "amd64",
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    text = json.dumps(configuration).encode()
    name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": None, "Layers": ["0/layer.tar"]}]).encode()
    return _tar(("manifest.json", FILE, manifest), (name, FILE, text), ("0/layer.tar", FILE, layer))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need(os.geteuid() == 0, "root")
    with running_cluster(tmp_path_factory.mktemp("hostile-images") / "data") as running:
        yield running


@pytest.mark.parametrize(
    ("name", "members", "reason"),
    [
        ("dots", [("../../../../../../..{outside}/x", FILE, b"x")], "leads out of the layer"),
        ("hard", [("l", HARD, "../../../../../../..{outside}/safe")], "leads out of the layer"),
        ("whiteout", [("d/.wh...", FILE, b"")], "removes nothing below"),
        ("root", [(".", LINK, "{outside}")], "root is not a directory"),
        ("deep", [("d/" * 10_000 + "f", FILE, b"x")], "too long"),
    ],
)
def test_a_layer_is_refused_before_it_is_stored(
    cluster: Cluster, tmp_path: Path, name: str, members: list[Member], reason: str
) -> None:
    outside = _write_image(tmp_path, members)
    done = cluster.lading(
        "image", "add", str(tmp_path / "image.tar"), "--name", f"{name}:1", check=False
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert reason in done.stderr
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"safe": "safe"}


@pytest.mark.parametrize(
    ("name", "members", "told"),
    [
        ("device", [("sda", BLOCK, "")], "'sda' is left out: the block device 8:0"),
        (
            "inside",
            [("{outside}/x", FILE, b"x"), ("l", LINK, "{outside}"), ("l/y", FILE, b"y")],
            "",
        ),
    ],
)
def test_a_layer_writes_nothing_outside(
    cluster: Cluster, tmp_path: Path, name: str, members: list[Member], told: str
) -> None:
    outside = _write_image(tmp_path, members)
    added = cluster.lading("image", "add", str(tmp_path / "image.tar"), "--name", f"{name}:1")
    assert told in added.stderr
    done = cluster.lading("run", "--image", f"{name}:1", "--", "true", check=False)
    assert done.returncode in (125, 127)
    assert "cannot be started" in done.stderr.splitlines()[-1]
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"safe": "safe"}


def _write_image(tmp_path: Path, members: list[Member]) -> Path:
    """Write `image.tar` with these members; "{outside}" is the directory that is returned."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "safe").write_text("safe")
    made = [
        (
            path.format(outside=outside),
            kind,
            what.format(outside=outside) if isinstance(what, str) else what,
        )
        for path, kind, what in members
    ]
    (tmp_path / "image.tar").write_bytes(_image(_tar(*made)))
    return outside


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (
            _tar(
                ("manifest.json", FILE, b'[{"Config":"../../etc/passwd","Layers":["/etc/passwd"]}]')
            ),
            "is missing",
        ),
        (_tar(("manifest.json", LINK, "/etc/passwd")), "neither an image nor a root file system"),
        (_tar(("manifest.json", FILE, gzip.compress(bytes(1 << 20), mtime=0))), "malformed"),
        (b"no archive" * 1000, "image.tar"),
    ],
)
def test_an_archive_that_is_no_image_is_refused(
    cluster: Cluster, tmp_path: Path, archive: bytes, reason: str
) -> None:
    (tmp_path / "image.tar").write_bytes(archive)
    done = cluster.lading(
        "image", "add", str(tmp_path / "image.tar"), "--name", "none:1", check=False
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert reason in done.stderr
    assert "root:" not in done.stderr + done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["image.tar"]
