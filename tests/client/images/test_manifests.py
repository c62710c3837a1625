"""Manifests and indexes, as registries send them."""

from __future__ import annotations

import json

import msgspec
import pytest

from lading.client.images.archive import Platform
from lading.client.images.manifests import (
    Blob,
    ImageManifest,
    choose_manifest,
    config_of,
    layers_of,
    parse_manifest,
)
from lading.client.images.reference import parse_reference
from lading.core.errors import Invalid, LadingError, Malformed
from tests.client.images.fake_registry import manifest_of
from tests.client.images.images_on_disk import digest

_REFERENCE = parse_reference("tools:1")
_AMD = Platform(os="linux", architecture="amd64")
_EMPTY = {"digest": digest(b""), "size": 0}


@pytest.mark.parametrize(
    ("manifest", "fault"),
    [
        (b"[]", "its manifest cannot be read"),
        (b"{}", "has no configuration"),
        (b'{"schemaVersion": 1}', "a format given up"),
        (b'{"config": {"digest": "sha256:/../../x", "size": 1}}', "is no digest"),
        (json.dumps({"config": {"digest": "md5:" + "0" * 67, "size": 1}}).encode(), "is no digest"),
        (
            json.dumps({"config": {**_EMPTY, "mediaType": "application/x-chart"}}).encode(),
            "is no container image but application/x-chart",
        ),
        (
            manifest_of(config=b"", layers=[{**_EMPTY, "urls": ["http://x"]}]),
            "is not in the registry but elsewhere",
        ),
    ],
)
def test_manifests_that_are_refused(manifest: bytes, fault: str) -> None:
    with pytest.raises(LadingError, match=fault):
        document = parse_manifest(manifest, _REFERENCE)
        config_of(document, _REFERENCE)
        layers_of(document, _REFERENCE)


def test_layers_without_end_are_refused() -> None:
    layer = Blob(digest=digest(b""), size=0)
    assert len(layers_of(ImageManifest(layers=[layer] * 1000), _REFERENCE)) == 1000
    with pytest.raises(Malformed, match="has 1001 layers"):
        layers_of(ImageManifest(layers=[layer] * 1001), _REFERENCE)


def test_a_missing_variant_matches_any() -> None:
    arm = Platform(os="linux", architecture="arm64", variant="v8")
    blobs = [Blob(digest=digest(text), size=1, platform=arm) for text in (b"a", b"b")]
    asked = msgspec.structs.replace(arm, variant="")
    assert choose_manifest(blobs, asked, _REFERENCE) == blobs[0]
    with pytest.raises(Invalid, match="no image for linux/amd64; it has: linux/arm64/v8"):
        choose_manifest(blobs, _AMD, _REFERENCE)
    with pytest.raises(Invalid, match="none at all"):
        choose_manifest([], _AMD, _REFERENCE)
