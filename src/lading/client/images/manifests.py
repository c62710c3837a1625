"""Manifests and indexes of images in registries, checked before anything that they name is fetched.

Source: the OCI image specification, and its forerunner by Docker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from lading.client.images.archive import (
    IMAGE_CONFIGS,
    Platform,
)
from lading.client.images.reference import ImageReference
from lading.client.images.registry_addresses import (
    shown,
)
from lading.core.errors import (
    Invalid,
    Malformed,
)
from lading.core.images import UNREADABLE

# More than any builder makes (127).
_MAX_LAYERS = 1000


class Blob(msgspec.Struct, frozen=True, rename="camel"):
    """A reference to a document or a layer of `size` bytes with `digest`."""

    digest: str
    size: int
    media_type: str = ""
    platform: Platform | None = None
    urls: list[str] = []


class ImageManifest(msgspec.Struct, frozen=True, rename="camel"):
    """A manifest or an index, distinguished by their fields."""

    # Of manifests and image configurations (OCI image specification).
    schema_version: int = 2
    manifests: list[Blob] | None = None
    config: Blob | None = None
    layers: list[Blob] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteImage:
    """An image in a registry. `digest` is that of the manifest or index that the tag names."""

    reference: ImageReference
    digest: str
    config: Blob
    layers: tuple[Blob, ...]

    @property
    def pinned(self) -> str:
        """`HOST/REPOSITORY@sha256:HEX`."""
        return self.reference.pinned(self.digest)


def parse_manifest(body: bytes, reference: ImageReference) -> ImageManifest:
    try:
        document = msgspec.json.decode(body, type=ImageManifest)
    except UNREADABLE as error:
        raise Malformed(
            f"{reference.name}: damaged image: its manifest cannot be read: {error}"
        ) from error
    if document.schema_version == 1:
        raise Invalid(
            f"{reference.name}: is stored in a format given up in 2017; "
            "push it again with a newer program"
        )
    blobs = [
        *(document.manifests or ()),
        *document.layers,
        *((document.config,) if document.config else ()),
    ]
    for blob in blobs:
        # "sha256:" and 64 hex digits. The digest becomes a path (`registry_access`).
        is_digest = len(blob.digest) == 71 and blob.digest.startswith("sha256:")
        if not is_digest or set(blob.digest[7:]) - set("0123456789abcdef") or blob.size < 0:
            raise Malformed(
                f"{reference.name}: damaged image: "
                f"{blob.digest[:100]!r} is no digest that is known here"
            )
    return document


def choose_manifest(
    manifests: Iterable[Blob], platform: Platform, reference: ImageReference
) -> Blob:
    """The first manifest for a platform; a missing variant matches any."""
    platforms = []
    for blob in manifests:
        offered = blob.platform or Platform()
        platforms.append(offered.text)
        is_same = offered.os in ("", platform.os) and offered.architecture in (
            "",
            platform.architecture,
        )
        if is_same and (not platform.variant or offered.variant in ("", platform.variant)):
            return blob
    others = (
        ", ".join(sorted({offer for offer in platforms if not offer.startswith("unknown")}))
        or "none at all"
    )
    raise Invalid(f"{reference.name}: holds no image for {platform.text}; it has: {shown(others)}")


def config_of(document: ImageManifest, reference: ImageReference) -> Blob:
    config = document.config
    if config is None:
        raise Malformed(f"{reference.name}: damaged image: its manifest has no configuration")
    if config.media_type not in IMAGE_CONFIGS:
        raise Invalid(f"{reference.name}: is no container image but {shown(config.media_type)}")
    return config


def layers_of(document: ImageManifest, reference: ImageReference) -> tuple[Blob, ...]:
    # "Foreign layers": fetched from any address that the manifest names.
    if len(document.layers) > _MAX_LAYERS:
        raise Malformed(
            f"{reference.name}: damaged image: has {len(document.layers)} layers, "
            f"more than {_MAX_LAYERS}"
        )
    for layer in document.layers:
        if layer.urls:
            raise Invalid(
                f"{reference.name}: layer {layer.digest[:19]} "
                "is not in the registry but elsewhere; refused"
            )
    return tuple(document.layers)
