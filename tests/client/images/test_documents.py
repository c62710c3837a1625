"""Docker-save and OCI layouts, as tars and directories, whole and damaged."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from lading.client.images.archive_members import DirectoryMembers, TarMembers
from lading.client.images.sources import read_oci, read_saved
from lading.core.errors import Invalid, Malformed
from tests.client.images.images_on_disk import (
    LAYERS,
    config_of,
    digest,
    oci_files,
    saved_files,
    write_files,
    write_tar,
)

Files = dict[str, bytes | None]


def _directory(tmp_path: Path, files: Files) -> DirectoryMembers:
    return DirectoryMembers(write_files(tmp_path / "image", files), "image")


def test_docker_save_as_tar_and_directory_are_the_same(tmp_path: Path) -> None:
    files = saved_files(*LAYERS, tags=["a:1", "a:2"])
    for found in (
        TarMembers(write_tar(tmp_path / "x.tar", files), "x.tar"),
        _directory(tmp_path, files),
    ):
        parts = read_saved(found, tmp_path, architecture="amd64")
        assert parts.config == files["c.json"]
        assert [layer.diff_id for layer in parts.layers] == [digest(layer) for layer in LAYERS]
        assert parts.names == ("a:1", "a:2")


@pytest.mark.parametrize("manifest", [b"{", b"{}", b'[{"Config": 1}]', b'[{"Layers": []}]'])
def test_a_damaged_docker_manifest_is_refused(tmp_path: Path, manifest: bytes) -> None:
    with pytest.raises(Malformed, match=r"manifest\.json"):
        read_saved(
            _directory(tmp_path, {"manifest.json": manifest}), tmp_path, architecture="amd64"
        )


def test_several_images_are_refused(tmp_path: Path) -> None:
    files = saved_files(*LAYERS, tags=["a:1"])
    both = json.loads(files["manifest.json"] or b"") * 2
    files["manifest.json"] = json.dumps(both).encode()
    with pytest.raises(Invalid, match=r"holds 2 images \(a:1, a:1\); save one at a time"):
        read_saved(_directory(tmp_path, files), tmp_path, architecture="amd64")


def test_an_oci_layout_with_compressed_layers(tmp_path: Path) -> None:
    blobs = tuple(gzip.compress(layer, mtime=0) for layer in LAYERS)
    parts = read_oci(
        _directory(tmp_path, oci_files(*LAYERS, blobs=blobs, name="1.0")),
        tmp_path,
        architecture="amd64",
    )
    assert [layer.path.read_bytes() for layer in parts.layers] == list(LAYERS)
    assert (parts.config, parts.names) == (config_of(*LAYERS), ("1.0",))


def test_an_oci_index_within_an_index_by_architecture(tmp_path: Path) -> None:
    files: Files = {}
    inner = []
    for architecture in ("amd64", "arm64"):
        one = oci_files(*LAYERS, architecture=architecture)
        (described,) = json.loads(one.pop("index.json") or b"")["manifests"]
        inner.append({**described, "platform": {"os": "linux", "architecture": architecture}})
        files.update(one)
    index = json.dumps({"manifests": inner}).encode()
    files[f"blobs/{digest(index).replace(':', '/')}"] = index
    annotations = {"io.containerd.image.name": "docker.io/library/a:1"}
    files["index.json"] = json.dumps(
        {"manifests": [{"digest": digest(index), "annotations": annotations}]}
    ).encode()
    parts = read_oci(_directory(tmp_path, files), tmp_path, architecture="arm64")
    assert json.loads(parts.config)["architecture"] == "arm64"
    assert parts.names == ("docker.io/library/a:1",)
    # As Docker's containerd store saves it: the manifests of other platforms were never fetched.
    del files[f"blobs/{inner[0]['digest'].replace(':', '/')}"]
    parts = read_oci(_directory(tmp_path / "less", files), tmp_path, architecture="arm64")
    assert json.loads(parts.config)["architecture"] == "arm64"
    with pytest.raises(Invalid, match="holds no image for linux/riscv64"):
        read_oci(_directory(tmp_path, files), tmp_path, architecture="riscv64")


def test_an_oci_image_for_another_processor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is for amd64, not for arm64; .*--platform linux/amd64"):
        read_oci(_directory(tmp_path, oci_files(*LAYERS)), tmp_path, architecture="arm64")


def test_a_saved_image_for_another_processor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is for amd64, not for arm64"):
        read_saved(_directory(tmp_path, saved_files(*LAYERS)), tmp_path, architecture="arm64")


def test_several_oci_images_are_refused(tmp_path: Path) -> None:
    one, two = oci_files(LAYERS[0]), oci_files(LAYERS[1])
    manifests = [
        item for files in (one, two) for item in json.loads(files["index.json"] or b"")["manifests"]
    ]
    files = {**one, **two, "index.json": json.dumps({"manifests": manifests}).encode()}
    with pytest.raises(Invalid, match="holds 2 images; copy one at a time"):
        read_oci(_directory(tmp_path, files), tmp_path, architecture="amd64")


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (b"{", "index.json"),
        (b'{"manifests": [{"digest": "sha256:../../x"}]}', "is no digest"),
        (b'{"manifests": [{"digest": "sha256:12"}]}', "blobs/sha256/12 is missing"),
        (b"{}", "holds no image"),
    ],
)
def test_a_damaged_oci_index_is_refused(tmp_path: Path, index: bytes, said: str) -> None:
    with pytest.raises((Malformed, Invalid), match=said):
        read_oci(_directory(tmp_path, {"index.json": index}), tmp_path, architecture="amd64")


def test_an_oci_index_that_holds_itself_is_refused(tmp_path: Path) -> None:
    index = b'{"manifests": [{"digest": "sha256:12"}]}'
    files: Files = {"index.json": index, "blobs/sha256/12": index}
    with pytest.raises(Malformed, match="nested too deeply"):
        read_oci(_directory(tmp_path, files), tmp_path, architecture="amd64")


def test_an_oci_manifest_without_configuration_is_refused(tmp_path: Path) -> None:
    files: Files = {
        "index.json": b'{"manifests": [{"digest": "sha256:12"}]}',
        "blobs/sha256/12": b"{}",
    }
    with pytest.raises(Malformed, match="has no configuration"):
        read_oci(_directory(tmp_path, files), tmp_path, architecture="amd64")
