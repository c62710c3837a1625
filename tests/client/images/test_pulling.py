"""From what a registry sent to the normal form."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import pytest

from lading.client.images.archive import Platform
from lading.client.images.layer_cache import LayerCache
from lading.client.images.manifests import Blob, RemoteImage
from lading.client.images.reference import parse_reference
from lading.client.images.registry import assemble, connector, origin_of, parse_platform
from lading.client.transport import HttpTransport
from lading.core.errors import Invalid, Malformed
from tests.client.images.images_on_disk import LAYERS, config_of, digest

_REFERENCE = parse_reference("h:5/tools:1")


def _shelved(layer_cache: LayerCache, data: bytes) -> Blob:
    with layer_cache.part(digest(data)) as file:
        file.write(data)
    layer_cache.keep(digest(data))
    return Blob(digest=digest(data), size=len(data))


def _image(*layers: Blob) -> RemoteImage:
    config = Blob(digest=digest(b"c"), size=1)
    return RemoteImage(reference=_REFERENCE, digest=digest(b"m"), config=config, layers=layers)


async def test_layers_are_uncompressed_into_one_archive(tmp_path: Path) -> None:
    layer_cache = LayerCache(tmp_path / "shelf")
    layers = (_shelved(layer_cache, gzip.compress(LAYERS[0])), _shelved(layer_cache, LAYERS[1]))
    normal = await assemble(_image(*layers), config_of(*LAYERS), layer_cache, tmp_path)
    assert normal.digest == digest(config_of(*LAYERS))
    with tarfile.open(normal.path) as tar:
        assert [f"{digest(layer)[7:]}/layer.tar" for layer in LAYERS] == tar.getnames()[2:]


async def test_a_layer_that_an_image_has_twice_stays_twice(tmp_path: Path) -> None:
    layer_cache = LayerCache(tmp_path / "shelf")
    stored = [_shelved(layer_cache, layer) for layer in LAYERS]
    order = (0, 1, 0, 0)
    config = config_of(*(LAYERS[one] for one in order))
    image = _image(*(stored[one] for one in order))
    normal = await assemble(image, config, layer_cache, tmp_path)
    with tarfile.open(normal.path) as tar:
        manifest = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
    names = [f"{digest(LAYERS[one])[7:]}/layer.tar" for one in order]
    assert manifest[0]["Layers"] == names


async def test_a_manifest_that_drops_a_layer_is_refused(tmp_path: Path) -> None:
    layer_cache = LayerCache(tmp_path / "shelf")
    image = _image(_shelved(layer_cache, LAYERS[0]))
    with pytest.raises(Malformed, match="1 layers, but its configuration has 2"):
        await assemble(image, config_of(*LAYERS), layer_cache, tmp_path)


async def test_layers_that_the_configuration_does_not_list_are_refused(tmp_path: Path) -> None:
    layer_cache = LayerCache(tmp_path / "shelf")
    with pytest.raises(Malformed, match="h:5/tools:1: damaged image: layer 1 is sha256"):
        await assemble(
            _image(_shelved(layer_cache, LAYERS[0])), config_of(LAYERS[1]), layer_cache, tmp_path
        )


@pytest.mark.parametrize(
    ("text", "is_plain", "origin"),
    [
        ("127.0.0.1:5/a", False, "http://127.0.0.1:5"),
        ("h:5/a", False, "https://h:5"),
        ("h:5/a", True, "http://h:5"),
    ],
)
def test_where_a_registry_answers(text: str, is_plain: bool, origin: str) -> None:
    assert origin_of(parse_reference(text), is_plain=is_plain) == origin
    transport = connector(None)(origin)
    assert isinstance(transport, HttpTransport)
    assert transport.address == origin


def test_platforms() -> None:
    assert parse_platform("linux/amd64") == Platform(os="linux", architecture="amd64")
    assert parse_platform("linux/arm64/v8").text == "linux/arm64/v8"
    for text in ("amd64", "windows/amd64", "linux/", "linux/a/b/c"):
        with pytest.raises(Invalid, match="write for example linux/amd64"):
            parse_platform(text)
