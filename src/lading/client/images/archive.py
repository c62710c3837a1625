"""The normal form of an image: one deterministic tar in docker-save layout (write and read).

    manifest.json      [{"Config": "<hex>.json", "RepoTags": null,
                         "Layers": ["<hex>/layer.tar", ...]}]
    <hex>.json         the configuration, byte for byte; its sha256 is the identity of the image
    <hex>/layer.tar    each layer, uncompressed, named by the sha256 of its bytes (its diff id)

Names are not part of it, so that one image with two names is stored once. The file is called
`sha256:<hex of the configuration>.tar`; image lookup accepts this name, and `docker load` reads the
file.

The bytes of the archive for a layer depend on the layer only. A block of the store begins and ends
where a large layer does, so that images that share a layer share its blocks.

Source: docs/spec/containers, section Images.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, cast

import msgspec

from lading.client.images.archive_members import CHUNK, Members, Slice
from lading.client.images.steps import UNWATCHED, ImageSteps
from lading.client.images.uncompressing import uncompressed
from lading.core.errors import Malformed
from lading.core.images import UNREADABLE

# Layers from this size on get blocks of their own; smaller ones are packed with their neighbours.
_OWN_BLOCKS = 1 << 20
# Creation time of images without one: equal programs give equal bytes.
EPOCH = "1970-01-01T00:00:00Z"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
IMAGE_CONFIGS = (
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
    "",
)
"""Media types of the configuration of an image; "" is that of old manifests, which have none."""


class Platform(msgspec.Struct, frozen=True):
    """The platform of an image."""

    architecture: str = ""
    os: str = ""
    variant: str = ""

    @property
    def text(self) -> str:
        """For example `linux/arm64/v8`."""
        return "/".join(field for field in (self.os, self.architecture, self.variant) if field)


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One uncompressed layer tar: `size` bytes at `offset` of the file `path`."""

    path: Path
    offset: int = 0
    size: int
    diff_id: str


class ImageParts(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a source: the configuration (JSON bytes), the layers bottom first, and known
    names.
    """

    config: bytes
    layers: tuple[Layer, ...]
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class NormalImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image in the normal form, on disk at `path`. `digest` is `sha256:<hex>`.

    `cuts`: offsets in the file at which large layers begin and end.
    """

    path: Path
    digest: str
    size: int
    created: str | None
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    cuts: tuple[int, ...] = ()

    @property
    def file_name(self) -> str:
        """The name of the only file of the image's collection."""
        return f"{self.digest}.tar"


def sha256_of(file: IO[bytes], size: int | None = None) -> str:
    """`sha256:<hex>` of the next `size` bytes (None: all)."""
    digest, left = hashlib.sha256(), size
    while data := file.read(CHUNK if left is None else min(CHUNK, left)):
        digest.update(data)
        if left is not None:
            left -= len(data)
    return f"sha256:{digest.hexdigest()}"


def make_config(
    layers: Sequence[Layer],
    *,
    architecture: str,
    created_by: str,
    environment: Sequence[str] = (f"PATH={PATH}",),
    command: Sequence[str] = ("/bin/sh",),
) -> bytes:
    """A configuration for layers that have none. The same arguments give the same bytes."""
    return msgspec.json.encode(
        {
            "architecture": architecture,
            "os": "linux",
            "created": EPOCH,
            "config": {"Env": list(environment), "Cmd": list(command), "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
            "history": [{"created": EPOCH, "created_by": created_by} for _ in layers],
        }
    )


def write_archive(parts: ImageParts, target: Path, *, steps: ImageSteps = UNWATCHED) -> NormalImage:
    """Write the normal form of `parts` to the file `target`.

    Raises Malformed when the configuration is not JSON or lists other layers than those given.
    """
    described = read_config(parts.config)
    given = [layer.diff_id for layer in parts.layers]
    if described.rootfs.diff_ids != given:
        raise Malformed(
            f"image: its configuration lists {len(described.rootfs.diff_ids)} layers, "
            "not those it comes with"
        )
    identity = hashlib.sha256(parts.config).hexdigest()
    names = [f"{layer.diff_id.removeprefix('sha256:')}/layer.tar" for layer in parts.layers]
    manifest = msgspec.json.encode(
        [{"Config": f"{identity}.json", "RepoTags": None, "Layers": names}]
    )
    # An image may list a layer more than once; the archive contains it once.
    layers, cuts = dict(zip(names, parts.layers, strict=True)), []
    # GNU format: no extended headers for times or owners, and sizes above 8 GiB are possible.
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        _add(tar, "manifest.json", io.BytesIO(manifest), len(manifest))
        _add(tar, f"{identity}.json", io.BytesIO(parts.config), len(parts.config))
        for number, (name, layer) in enumerate(layers.items()):
            steps.at("writing layer", number, len(layers))
            with layer.path.open("rb") as file:
                file.seek(layer.offset)
                start = tar.offset
                _add(tar, name, steps.reading(file), layer.size)
            if layer.size >= _OWN_BLOCKS:
                cuts += [start, tar.offset]
    return NormalImage(
        path=target,
        digest=f"sha256:{identity}",
        size=target.stat().st_size,
        created=described.created,
        names=parts.names,
        notes=parts.notes,
        cuts=tuple(cuts),
    )


class RootFS(msgspec.Struct, frozen=True):
    """The part of an image configuration that lists its layers."""

    diff_ids: list[str]


class ArchiveConfig(msgspec.Struct, frozen=True):
    """The fields of an image configuration that are read here; all others are kept unchanged."""

    rootfs: RootFS
    created: str | None = None
    architecture: str = ""


def read_config(data: bytes) -> ArchiveConfig:
    """Decode the used fields of an image configuration. Raises Malformed."""
    try:
        return msgspec.json.decode(data, type=ArchiveConfig)
    except UNREADABLE as error:
        raise Malformed(f"image: its configuration cannot be read: {error}") from error


def _add(tar: tarfile.TarFile, name: str, file: IO[bytes], size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    tar.addfile(member, cast(io.BufferedReader, file))


def read_layers(
    members: Members,
    names: Iterable[str],
    diff_ids: list[str],
    folder: Path,
    *,
    steps: ImageSteps = UNWATCHED,
) -> tuple[Layer, ...]:
    """The layers with these names, uncompressed below `folder` if needed, each verified against its
    diff id.

    Raises Malformed when one is missing or differs, or the numbers of names and diff ids differ.
    """
    listed = list(names)
    if len(listed) != len(diff_ids):
        raise Malformed(
            f"{members.source}: damaged image: {len(listed)} layers, "
            f"but its configuration has {len(diff_ids)}"
        )
    layers = []
    # A tenth of the space that is free now, not of what each layer leaves.
    reserve = shutil.disk_usage(folder).free // 10
    for number, (name, diff_id) in enumerate(zip(listed, diff_ids, strict=True), 1):
        steps.at("reading layer", number - 1, len(listed))
        found = members.find(name)
        if found is None:
            raise Malformed(f"{members.source}: damaged image: layer {name} is missing")
        layer = plain_layer(
            found, folder / f"layer-{number}.tar", members.source, steps=steps, reserve=reserve
        )
        if layer.diff_id != diff_id:
            raise Malformed(
                f"{members.source}: damaged image: layer {number} is {layer.diff_id}, not {diff_id}"
            )
        layers.append(layer)
    return tuple(layers)


def plain_layer(
    piece: Slice,
    target: Path,
    source: str,
    *,
    steps: ImageSteps = UNWATCHED,
    reserve: int | None = None,
) -> Layer:
    """The layer at `piece`, uncompressed into the file `target` if it is compressed. `reserve`: the
    bytes of the disk that stay free; a tenth of the free ones if None.
    """
    piece = uncompressed(piece, target, source, steps=steps, reserve=reserve)
    with piece.path.open("rb") as file:
        file.seek(piece.offset)
        diff_id = sha256_of(steps.reading(file), piece.size)
    return Layer(path=piece.path, offset=piece.offset, size=piece.size, diff_id=diff_id)
