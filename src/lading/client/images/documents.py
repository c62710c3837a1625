"""Images in docker-save (all versions) and OCI layout.

Both may be a directory or a tar. The configuration is taken byte for byte, so that the image keeps
its identity; each layer is verified against the digest that the configuration lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from lading.client.images.archive import Parts, read_config
from lading.client.images.members import Members, read_document, read_layers
from lading.core.errors import Invalid, Malformed

_REF_NAME = "org.opencontainers.image.ref.name"
_FULL_NAME = "io.containerd.image.name"
# Indexes inside indexes; more is refused as damaged, and a loop of indexes ends here.
_MAX_NESTING = 4


class SavedImage(msgspec.Struct, frozen=True, rename="pascal"):
    """One image of a docker-save `manifest.json`."""

    config: str
    layers: list[str]
    repo_tags: list[str] | None = None


class Platform(msgspec.Struct, frozen=True):
    """The platform of an OCI image."""

    architecture: str = ""
    os: str = ""


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """A reference to an OCI blob."""

    digest: str
    platform: Platform | None = None
    annotations: dict[str, str] = {}


class Index(msgspec.Struct, frozen=True, rename="camel"):
    """An OCI index or manifest; their fields tell which."""

    manifests: list[Descriptor] | None = None
    config: Descriptor | None = None
    layers: list[Descriptor] = []


def read_saved(members: Members, folder: Path) -> Parts:
    """The parts of the image in a docker-save archive.

    Raises Malformed when it is damaged, Invalid when it contains several images.
    """
    try:
        images = msgspec.json.decode(read_document(members, "manifest.json"), type=list[SavedImage])
    except msgspec.DecodeError as error:
        raise Malformed(f"{members.source}: damaged image: manifest.json: {error}") from error
    if len(images) != 1:
        names = sorted(name for one in images for name in one.repo_tags or ("<none>",))
        raise Invalid(
            f"{members.source}: holds {len(images)} images ({', '.join(names)}); save one at a time"
        )
    config = read_document(members, images[0].config)
    layers = read_layers(members, images[0].layers, read_config(config).rootfs.diff_ids, folder)
    return Parts(config=config, layers=layers, names=tuple(images[0].repo_tags or ()))


def read_oci(members: Members, folder: Path, *, architecture: str) -> Parts:
    """The parts of the image for `architecture` in an OCI layout.

    Raises Malformed when it is damaged, Invalid when it contains none or several for this
    architecture.
    """
    found = list(_manifests(members, _index(members, "index.json"), "", depth=0))
    fitting = [
        one for one in found if one[1].platform is None or _fits(one[1].platform, architecture)
    ]
    if not fitting:
        raise Invalid(f"{members.source}: holds no image for linux/{architecture}")
    # An image may be listed under several names.
    if len({one[1].digest for one in fitting}) > 1:
        raise Invalid(f"{members.source}: holds {len(fitting)} images; copy one at a time")
    manifest, _, name = fitting[0]
    if manifest.config is None:
        raise Malformed(f"{members.source}: damaged image: a manifest has no configuration")
    config = read_document(members, _blob(members, manifest.config.digest))
    described = read_config(config)
    if described.architecture not in ("", architecture):
        raise Invalid(
            f"{members.source}: is for {described.architecture}, this machine is {architecture}"
        )
    blobs = [_blob(members, layer.digest) for layer in manifest.layers]
    layers = read_layers(members, blobs, described.rootfs.diff_ids, folder)
    return Parts(config=config, layers=layers, names=(name,) if name else ())


def _manifests(
    members: Members, index: Index, name: str, *, depth: int
) -> Iterator[tuple[Index, Descriptor, str]]:
    if depth > _MAX_NESTING:
        raise Malformed(f"{members.source}: damaged image: its indexes are nested too deeply")
    for descriptor in index.manifests or ():
        inner = _index(members, _blob(members, descriptor.digest))
        label = (
            descriptor.annotations.get(_FULL_NAME) or descriptor.annotations.get(_REF_NAME) or name
        )
        if inner.manifests is not None:
            yield from _manifests(members, inner, label, depth=depth + 1)
        else:
            yield inner, descriptor, label


def _index(members: Members, name: str) -> Index:
    try:
        return msgspec.json.decode(read_document(members, name), type=Index)
    except msgspec.DecodeError as error:
        raise Malformed(f"{members.source}: damaged image: {name}: {error}") from error


def _blob(members: Members, digest: str) -> str:
    algorithm, _, value = digest.partition(":")
    # The digest becomes a path, and comes from the image.
    if not (algorithm.isalnum() and value.isalnum()):
        raise Malformed(f"{members.source}: damaged image: {digest!r} is no digest")
    return f"blobs/{algorithm}/{value}"


def _fits(platform: Platform, architecture: str) -> bool:
    return platform.os in ("", "linux") and platform.architecture in ("", architecture)
