"""Layouts as umoci, containerd, BuildKit and go-containerregistry write them, made small here."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lading.client.images.archive import ImageParts
from lading.client.images.sources import read
from lading.core.errors import Invalid, Malformed
from tests.client.images.images_on_disk import (
    LAYERS,
    config_of,
    digest,
    saved_files,
    tar_of,
    write_files,
    write_tar,
)

Files = dict[str, bytes | None]
EMPTY = tar_of({})
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
REFERENCE = "org.opencontainers.image.ref.name"


class Layout:
    """An OCI layout that is put together blob by blob."""

    def __init__(self) -> None:
        self.files: Files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def add(self, data: bytes, media_type: str, **more: Any) -> dict[str, Any]:
        """The descriptor of a blob, which is stored."""
        self.files[f"blobs/{digest(data).replace(':', '/')}"] = data
        return {"mediaType": media_type, "digest": digest(data), "size": len(data), **more}

    def image(
        self, layers: Sequence[bytes], stored: Sequence[bytes] = (), kind: str = "", **more: Any
    ) -> dict[str, Any]:
        """The descriptor of an image of these layers; `stored` are their blobs."""
        config = self.add(config_of(*layers), "application/vnd.oci.image.config.v1+json")
        described = [self.add(blob, f"{LAYER}{kind}") for blob in stored or layers]
        return self.manifest({"config": config, "layers": described}, **more)

    def manifest(self, document: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """The descriptor of a manifest, which is stored."""
        text = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, **document}).encode()
        return self.add(text, MANIFEST, **more)

    def index(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Write the index of the layout."""
        document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
        self.files["index.json"] = json.dumps(document).encode()

    def parts(self, directory: Path) -> ImageParts:
        """The image as it is read from a directory and from a tar, which are the same."""
        found = read(write_files(directory / "layout", self.files), directory, architecture="amd64")
        packed = read(
            write_tar(directory / "layout.tar", self.files), directory, architecture="amd64"
        )
        assert [layer.diff_id for layer in packed.layers] == [
            layer.diff_id for layer in found.layers
        ]
        return found


def diff_ids(parts: ImageParts) -> list[str]:
    return [layer.diff_id for layer in parts.layers]


def test_umoci_appends_members_of_gzip_and_empty_layers(tmp_path: Path) -> None:
    """Its compressor works in parallel, and a repack without changes adds a layer."""
    layers = (*LAYERS, EMPTY, EMPTY)
    stored = [
        b"".join(gzip.compress(layer[at : at + 4096], mtime=0) for at in range(0, len(layer), 4096))
        for layer in layers
    ]
    layout = Layout()
    layout.index([layout.image(layers, stored, "+gzip", annotations={REFERENCE: "latest"})])
    parts = layout.parts(tmp_path)
    assert diff_ids(parts) == [digest(layer) for layer in layers]
    assert parts.names == ("latest",)


def test_umoci_leaves_blobs_of_no_image(tmp_path: Path) -> None:
    """What was replaced stays until `umoci gc`."""
    layout = Layout()
    layout.image(LAYERS[:1])
    layout.index([layout.image(LAYERS)])
    assert diff_ids(layout.parts(tmp_path)) == [digest(layer) for layer in LAYERS]


def test_umoci_writes_pax_headers_and_a_root(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("./", "etc/", "etc/ünïcode" + "x" * 120):
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            member.mtime = 1234567890.123456789
            member.pax_headers = {"SCHILY.xattr.user.umoci": "ümoci"}
            tar.addfile(member)
    layout = Layout()
    layout.index([layout.image([buffer.getvalue()])])
    assert diff_ids(layout.parts(tmp_path)) == [digest(buffer.getvalue())]


def test_containerd_exports_one_image_twice(tmp_path: Path) -> None:
    """As an OCI layout, and for `docker load` with the paths of the same blobs."""
    layout = Layout()
    stored = [gzip.compress(layer, mtime=0) for layer in LAYERS]
    annotations = {"io.containerd.image.name": "docker.example/a:1", REFERENCE: "1"}
    layout.index([layout.image(LAYERS, stored, "+gzip", annotations=annotations)])
    paths = [f"blobs/{digest(blob).replace(':', '/')}" for blob in stored]
    config = f"blobs/{digest(config_of(*LAYERS)).replace(':', '/')}"
    saved = [{"Config": config, "RepoTags": ["docker.example/a:1"], "Layers": paths}]
    layout.files["manifest.json"] = json.dumps(saved).encode()
    parts = layout.parts(tmp_path)
    assert diff_ids(parts) == [digest(layer) for layer in LAYERS]
    assert parts.names == ("docker.example/a:1",)


def test_containerd_compresses_with_zstd(tmp_path: Path) -> None:
    stored = [
        subprocess.run(["zstd", "-qc"], input=layer, capture_output=True, check=True).stdout
        for layer in LAYERS
    ]
    layout = Layout()
    layout.index([layout.image(LAYERS, stored, "+zstd")])
    assert diff_ids(layout.parts(tmp_path)) == [digest(layer) for layer in LAYERS]


def test_buildkit_adds_attestations(tmp_path: Path) -> None:
    """Manifests of the platform unknown/unknown, whose layers are statements."""
    layout = Layout()
    platform = {"architecture": "amd64", "os": "linux"}
    image = layout.image(LAYERS, platform=platform)
    statement = layout.add(b'{"_type": "statement"}', "application/vnd.in-toto+json")
    config = layout.add(
        b'{"architecture": "unknown", "os": "unknown"}', "application/vnd.oci.image.config.v1+json"
    )
    attestation = layout.manifest(
        {"config": config, "layers": [statement]},
        platform={"architecture": "unknown", "os": "unknown"},
        annotations={
            "vnd.docker.reference.type": "attestation-manifest",
            "vnd.docker.reference.digest": image["digest"],
        },
    )
    inner = json.dumps({"mediaType": INDEX, "manifests": [image, attestation]}).encode()
    layout.index([layout.add(inner, INDEX, annotations={REFERENCE: "1"})])
    assert diff_ids(layout.parts(tmp_path)) == [digest(layer) for layer in LAYERS]


def test_an_artifact_that_refers_to_the_image_is_none(tmp_path: Path) -> None:
    """A signature beside its image, as cosign and notation store them (OCI 1.1)."""
    layout = Layout()
    image = layout.image(LAYERS)
    empty = {**layout.add(b"{}", "application/vnd.oci.empty.v1+json"), "data": "e30="}
    signature = layout.manifest(
        {
            "artifactType": "application/vnd.example.signature",
            "config": empty,
            "layers": [empty],
            "subject": {name: image[name] for name in ("mediaType", "digest", "size")},
        },
        artifactType="application/vnd.example.signature",
    )
    layout.index([image, signature])
    assert diff_ids(layout.parts(tmp_path)) == [digest(layer) for layer in LAYERS]


@pytest.mark.parametrize(
    "document",
    [
        {"config": {"mediaType": "application/vnd.cncf.helm.config.v1+json"}},
        # A signature of cosign has the configuration of an image.
        {"layers": [{"mediaType": "application/vnd.dev.cosign.simplesigning.v1+json"}]},
    ],
)
def test_a_layout_of_an_artifact_alone_has_no_image(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    layout = Layout()
    blob = layout.add(b"{}", "")
    config = {**blob, **document.get("config", {})}
    layers = [{**blob, **layer} for layer in document.get("layers", ())]
    layout.index([layout.manifest({"config": config, "layers": layers})])
    with pytest.raises(Invalid, match="holds no image for linux/amd64"):
        layout.parts(tmp_path)


def test_a_configuration_inside_of_its_descriptor(tmp_path: Path) -> None:
    """OCI 1.1 allows `data` in a descriptor; the blob is there too."""
    layout = Layout()
    config = config_of(*LAYERS)
    described = layout.add(config, "application/vnd.oci.image.config.v1+json")
    described["data"] = base64.b64encode(config).decode()
    layers = [layout.add(layer, LAYER) for layer in LAYERS]
    layout.index([layout.manifest({"config": described, "layers": layers})])
    assert layout.parts(tmp_path).config == config


@pytest.mark.parametrize("is_compressed", [True, False])
def test_crane_names_members_by_their_hash(tmp_path: Path, is_compressed: bool) -> None:
    """A docker-save archive with compressed layers `HEX.tar.gz`, and a colon in a member's name."""
    config = config_of(*LAYERS)
    stored = [gzip.compress(layer, mtime=0) if is_compressed else layer for layer in LAYERS]
    names = [f"{hashlib.sha256(blob).hexdigest()}.tar.gz" for blob in stored]
    files: Files = {digest(config): config, **dict(zip(names, stored, strict=True))}
    files["manifest.json"] = json.dumps(
        [{"Config": digest(config), "RepoTags": ["a.example/b:i-was-a-digest"], "Layers": names}]
    ).encode()
    parts = read(write_tar(tmp_path / "image.tar", files), tmp_path, architecture="amd64")
    assert diff_ids(parts) == [digest(layer) for layer in LAYERS]
    assert parts.names == ("a.example/b:i-was-a-digest",)


def test_docker_adds_members_that_no_image_needs(tmp_path: Path) -> None:
    """Files `json` and `VERSION` of old layers, `repositories`, and links from old to new paths."""
    files = saved_files(*LAYERS, tags=["a:1"])
    files |= {"l0/VERSION": b"1.0", "l0/json": b"{}", "repositories": b"{}"}
    parts = read(write_tar(tmp_path / "image.tar", files), tmp_path, architecture="amd64")
    assert diff_ids(parts) == [digest(layer) for layer in LAYERS]


def test_crane_leaves_a_layer_out_that_may_not_be_distributed(tmp_path: Path) -> None:
    """A foreign layer has URLs in place of a blob; the message names the missing one."""
    layout = Layout()
    image = layout.image(LAYERS)
    del layout.files[f"blobs/{digest(LAYERS[0]).replace(':', '/')}"]
    layout.index([image])
    with pytest.raises(Malformed, match="is missing"):
        layout.parts(tmp_path)
