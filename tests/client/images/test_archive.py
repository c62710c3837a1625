"""The normal form: deterministic, without names, checked."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from lading.client.images.archive import (
    ImageParts,
    Layer,
    make_config,
    read_config,
    sha256_of,
    write_archive,
)
from lading.core.errors import Malformed
from tests.client.images.images_on_disk import LAYERS, config_of, digest


def _layers(folder: Path) -> tuple[Layer, ...]:
    path = folder / "both"
    path.write_bytes(b"".join(LAYERS))
    first = Layer(path=path, size=len(LAYERS[0]), diff_id=digest(LAYERS[0]))
    return first, Layer(
        path=path, offset=first.size, size=len(LAYERS[1]), diff_id=digest(LAYERS[1])
    )


def test_the_archive_has_the_layout_that_docker_loads(tmp_path: Path) -> None:
    config = config_of(*LAYERS, created="2026-01-02T03:04:05Z")
    image = write_archive(
        ImageParts(config=config, layers=_layers(tmp_path), names=("a:1",)), tmp_path / "image.tar"
    )
    with tarfile.open(image.path) as tar:
        contents = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    (entry,) = json.loads(contents["manifest.json"])
    assert digest(contents[entry["Config"]]) == image.digest == digest(config)
    assert tuple(contents[name] for name in entry["Layers"]) == LAYERS
    assert entry["RepoTags"] is None
    assert (image.file_name, image.names) == (f"{image.digest}.tar", ("a:1",))
    assert image.created == "2026-01-02T03:04:05Z"


def test_the_same_parts_give_the_same_bytes(tmp_path: Path) -> None:
    parts = ImageParts(config=config_of(*LAYERS), layers=_layers(tmp_path))
    images = [write_archive(parts, tmp_path / name) for name in ("one", "two")]
    assert images[0].path.read_bytes() == images[1].path.read_bytes()


def test_a_layer_that_is_listed_twice_is_stored_once(tmp_path: Path) -> None:
    first, _ = _layers(tmp_path)
    parts = ImageParts(config=config_of(LAYERS[0], LAYERS[0]), layers=(first, first))
    with tarfile.open(write_archive(parts, tmp_path / "image.tar").path) as tar:
        assert len(tar.getnames()) == 3


def test_other_layers_than_the_configuration_lists_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="lists 1 layers"):
        write_archive(
            ImageParts(config=config_of(LAYERS[1]), layers=_layers(tmp_path)),
            tmp_path / "image.tar",
        )


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b'{"rootfs": {"diff_ids": [1]}}'])
def test_a_configuration_that_cannot_be_read_is_refused(text: bytes) -> None:
    with pytest.raises(Malformed, match="its configuration cannot be read"):
        read_config(text)


def test_a_made_configuration_lists_the_layers(tmp_path: Path) -> None:
    config = make_config(_layers(tmp_path), architecture="arm64", created_by="a test")
    assert read_config(config).rootfs.diff_ids == [digest(layer) for layer in LAYERS]
    assert read_config(config).architecture == "arm64"


def test_sha256_of_a_part(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcdef")
    with path.open("rb") as file:
        assert sha256_of(file, 3) == digest(b"abc")
        assert sha256_of(file) == digest(b"def")
