from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.inputs.daemon_image import unfit, write_equal
from lading.supervisor.inputs.image_archive import ImageArchive
from lading.supervisor.inputs.unpack import unpack_layer, unwatched
from lading.testing.images import make_archive
from lading.testing.odd_images import entry, layer

OLD = layer(entry("d", tarfile.DIRTYPE), entry("d/old", size=1), entry("f", size=2, uid=7))


def archive(tmp_path: Path, *layers: bytes, **settings: object) -> ImageArchive:
    path = tmp_path / "image.tar"
    path.write_bytes(make_archive(layers, settings)[1])
    return ImageArchive(path)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, ""),
        ({"Env": ["A=b", "FLAG"]}, ""),
        ({"Env": ["=x"]}, "its environment has '=x'"),
        ({"Entrypoint": "/bin/sh"}, "its Entrypoint is one text"),
    ],
)
def test_settings_that_daemons_refuse(
    tmp_path: Path, settings: dict[str, object], said: str
) -> None:
    with archive(tmp_path, OLD, **settings) as opened:
        found = unfit(opened, unwatched)
    assert found.startswith(said) if said else not found


def test_layers_that_daemons_misread(tmp_path: Path) -> None:
    with archive(tmp_path, OLD, layer(entry("d/.wh.none"))) as opened:
        assert "no lower one has" in unfit(opened, unwatched)


def test_a_layer_that_no_engine_takes(tmp_path: Path) -> None:
    with (
        archive(tmp_path, OLD, b"x" * 2000) as opened,
        pytest.raises(ExecutionError, match="a layer of the image is damaged"),
    ):
        unfit(opened, unwatched)


@pytest.mark.usefixtures("as_root")
def test_one_layer_has_the_files_of_all(tmp_path: Path) -> None:
    attributes = {"SCHILY.xattr.user.a": "b\udcff"}
    high = layer(
        entry(".wh.d"),
        entry("d/new", size=3, pax_headers=attributes),
        entry("d/same", tarfile.LNKTYPE, linkname="d/new"),
        entry("l", tarfile.SYMTYPE, linkname="f"),
        entry("null", tarfile.CHRTYPE, devmajor=1, devminor=3),
    )
    paths = [tmp_path / "1", tmp_path / "2"]
    for path, data in zip(paths, (OLD, high), strict=True):
        unpack_layer(io.BytesIO(data), path, limit=1 << 20)
    folder = tmp_path / "equal"
    folder.mkdir()
    settings = {"Env": ["=x", "A=b"], "Entrypoint": "/bin/sh", "Cmd": ""}
    with archive(tmp_path, OLD, high, **settings) as opened:
        name, path = write_equal(opened.configuration, paths, folder, watch=unwatched)
    with ImageArchive(path) as made:
        made.prove(name, limit=1 << 30)
        assert json.loads(made.configuration)["config"] == {
            "Env": ["A=b"], "Entrypoint": ["/bin/sh"], "Cmd": []
        }  # fmt: skip
        (member,) = made.saved.layers
        with tarfile.open(fileobj=made.open(member)) as tar:
            found = {one.name: one for one in tar.getmembers()}
    assert sorted(found) == ["d", "d/new", "d/same", "f", "l", "null"]
    assert (found["d/new"].size, found["d/same"].linkname, found["f"].uid) == (3, "d/new", 7)
    assert found["d/new"].pax_headers["SCHILY.xattr.user.a"] == "b\udcff"
    assert (found["l"].linkname, found["null"].devminor) == ("f", 3)
