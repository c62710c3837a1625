"""Layers and packages of images."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from lading.client.provenance.image_differences import (
    ImageDifference,
    compare_images,
    read_image,
)
from lading.core.errors import Malformed
from tests.cli.site import Site

STATUS = b"Package: sh\nStatus: ok\nVersion: 1\n\nVersion: 9\n\nPackage: awk\nVersion: %s\n"


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _image(*layers: Mapping[str, bytes]) -> bytes:
    tars = [_tar(one) for one in layers]
    ids = [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in tars]
    config = {
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": ids},
    }  # fmt: skip
    names = [f"{number}.tar" for number in range(len(tars))]
    manifest = [{"Config": "config.json", "RepoTags": [], "Layers": names}]
    documents = {"manifest.json": manifest, "config.json": config}
    return _tar(
        {
            **{name: json.dumps(one).encode() for name, one in documents.items()},
            **dict(zip(names, tars, strict=True)),
        }
    )


BASE = {"var/lib/dpkg/status": STATUS % b"1"}
PYTHON = {"usr/lib/python3/x/six-1.2.dist-info/METADATA": b""}


def _contents(path: Path, data: bytes) -> Mapping[str, str]:
    path.write_bytes(data)
    return read_image(path).packages


def test_packages_of_debian_alpine_and_python(tmp_path: Path) -> None:
    apk = {"lib/apk/db/installed": b"P:musl\nV:1.2\n\nP:zlib\nV:3\n"}
    found = _contents(tmp_path / "i", _image(BASE, PYTHON, apk))
    assert found == {"sh": "1", "awk": "1", "python six": "1.2", "musl": "1.2", "zlib": "3"}
    upper = {"var/lib/dpkg/status": STATUS % b"2"}
    assert _contents(tmp_path / "j", _image(BASE, upper))["awk"] == "2"


def test_a_layer_that_is_no_tar_has_no_packages(tmp_path: Path) -> None:
    whole = _image(BASE)
    layer = _tar(BASE)
    assert _contents(tmp_path / "i", whole.replace(layer[:512], bytes(range(256)) * 2)) == {}


def test_archives_that_are_no_image(tmp_path: Path) -> None:
    cases: Sequence[tuple[bytes, str]] = [
        (b"x", "neither an image"),
        (_tar({"manifest.json": b"{"}), "manifest.json"),
        (_tar({"manifest.json": b"[]"}), "holds 0 images"),
        (_image(BASE).replace(b"0.tar", b"9.tar", 1), "missing"),
    ]
    for data, fault in cases:
        with pytest.raises(Malformed, match=fault):
            _contents(tmp_path / "i", data)


def test_layers_that_are_shared(stage: Site) -> None:
    async def compared() -> ImageDifference:
        images = (_image(BASE, {"x": b"1"}), _image(BASE, {"x": b"2"}, PYTHON))
        pdhs = [
            str((await stage.world.collection({"i.tar": one}))["portable_data_hash"])
            for one in images
        ]
        async with stage.connect() as session:
            several = await stage.world.collection({"a": b"", "b": b""})
            with pytest.raises(Malformed, match="is no image"):
                await compare_images(
                    session.api, session.blocks, pdhs[0], several["portable_data_hash"]
                )
            return await compare_images(session.api, session.blocks, *pdhs)

    found = stage.call(compared())
    assert (found.before, found.after, found.shared) == (2, 3, 1)
    assert found.packages == (("python six", "", "1.2"),)
