"""Reads each kind of source of `lading image add` into the normal form.

The kind of a file or directory follows from its content: `manifest.json` is docker-save,
`index.json` or `oci-layout` is OCI, directories such as bin and usr are a root file system. A
source that does not exist as a file is the name of an image of the local Docker.

- A root file system, a tar or a directory, becomes an image of one layer. A tar is kept byte for
  byte. Of a directory, owners, modes and times are kept; device files and sockets are left out.
- docker-save (all versions) and OCI layouts may be a directory or a tar. The configuration is taken
  byte for byte, so that the image keeps its identity; each layer is verified against the digest
  that the configuration lists.
"""

from __future__ import annotations

import asyncio
import os
import platform
import stat
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import structs

from lading.client.images.archive import (
    IMAGE_CONFIGS,
    ArchiveConfig,
    ImageParts,
    NormalImage,
    Platform,
    make_config,
    plain_layer,
    read_config,
    read_layers,
    write_archive,
)
from lading.client.images.archive_members import (
    DirectoryMembers,
    Members,
    Slice,
    TarMembers,
    read_document,
)
from lading.client.images.from_host import SourceHost, from_host
from lading.client.images.layer_writing import LayerEntry, write_layer
from lading.client.images.runnable import check_runnable
from lading.client.images.steps import UNWATCHED, ImageSteps, Report, run_steps
from lading.client.images.uncompressing import uncompressed
from lading.core.errors import Invalid, Malformed, NotFound, Unavailable
from lading.core.images import UNREADABLE, goarch, runs_on

DOCKER_SOCKET = Path("/var/run/docker.sock")
_TOPS = frozenset(("bin", "usr", "sbin", "etc", "lib"))
_KEPT = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK, stat.S_ISFIFO)
_REF_NAME = "org.opencontainers.image.ref.name"
_FULL_NAME = "io.containerd.image.name"
# Indexes inside indexes; more is refused as damaged, and a loop of indexes ends here.
_MAX_NESTING = 4
_EXPORT_TIMEOUT = 3600.0
"""Seconds between two pieces of an export, which the daemon may prepare before the first."""


def docker_socket(environ: Mapping[str, str]) -> Path:
    """The socket of the local Docker (or podman): DOCKER_HOST if it names a socket, else the usual
    path.
    """
    host = environ.get("DOCKER_HOST", "")
    return Path(host.removeprefix("unix://")) if host.startswith("unix://") else DOCKER_SOCKET


async def normalise(
    source: str,
    folder: Path,
    *,
    socket: Path = DOCKER_SOCKET,
    architecture: str = "",
    report: Report | None = None,
) -> NormalImage:
    """The image that `source` names, written in the normal form below the empty directory `folder`.
    `architecture`: as Go names it; that of this machine if empty.

    Raises NotFound when nothing has this name, Malformed when it is damaged, Invalid when it cannot
    be used.
    """
    path = Path(source)
    if await asyncio.to_thread(path.exists):
        return await _from_path(path, folder, architecture, report)
    saved = await save_from_docker(source, folder / "saved.tar", socket=socket)
    return await _from_path(saved, folder, architecture, report)


async def normalise_programs(
    programs: Sequence[str], folder: Path, *, host: SourceHost, report: Report | None = None
) -> NormalImage:
    """The image of these programs of `host`, written in the normal form below `folder`. Raises
    Invalid.
    """

    def work(steps: ImageSteps) -> NormalImage:
        parts = from_host(programs, folder, host=host, steps=steps)
        return write_archive(parts, folder / "image.tar", steps=steps)

    return await run_steps(work, report)


async def _from_path(
    path: Path, folder: Path, architecture: str, report: Report | None
) -> NormalImage:
    architecture = architecture or goarch(platform.machine())

    def work(steps: ImageSteps) -> NormalImage:
        parts = read(path, folder, architecture=architecture, steps=steps)
        notes = check_runnable(parts, steps=steps)
        parts = structs.replace(parts, notes=(*parts.notes, *notes))
        return write_archive(parts, folder / "image.tar", steps=steps)

    return await run_steps(work, report)


def read(
    path: Path, folder: Path, *, architecture: str, steps: ImageSteps = UNWATCHED
) -> ImageParts:
    """The parts of the image at `path`; uncompressed files are written below `folder`."""
    source = str(path)
    if path.is_dir():
        inside = DirectoryMembers(path, source)
        if inside.find("manifest.json"):
            return read_saved(inside, folder, architecture=architecture, steps=steps)
        if inside.find("index.json"):
            return read_oci(inside, folder, architecture=architecture, steps=steps)
        if not is_rootfs(inside.tops()):
            raise Invalid(
                f"{source}: neither an image nor a root file system: it holds no bin, usr or etc"
            )
        return read_rootfs_directory(path, folder, architecture=architecture, steps=steps)
    steps.at("reading the archive")
    whole = Slice(path, 0, path.stat().st_size)
    plain = uncompressed(whole, folder / "plain.tar", source, steps=steps).path
    members = TarMembers(plain, source, steps=steps)
    if members.find("manifest.json"):
        return read_saved(members, folder, architecture=architecture, steps=steps)
    if members.find("index.json"):
        return read_oci(members, folder, architecture=architecture, steps=steps)
    if not is_rootfs(members.tops()):
        raise Invalid(
            f"{source}: neither an image nor a root file system: it holds no bin, usr or etc"
        )
    return read_rootfs_tar(plain, folder, architecture=architecture, source=source, steps=steps)


async def save_from_docker(name: str, target: Path, *, socket: Path = DOCKER_SOCKET) -> Path:
    """Save an image of the local Docker (or podman) to the file `target`.

    Raises NotFound when Docker does not have it or does not run.
    """
    if not await asyncio.to_thread(socket.exists):
        raise NotFound(
            f"{name}: no such file or directory, and no Docker at {socket} to "
            "ask for an image of that name"
        )
    # Imported here: only this source needs it.
    from lading.client.transport import HttpTransport

    reference = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
    missing = f"{name}: no such file or directory, and Docker"
    path = f"/images/{quote(reference, safe='/:@')}"
    try:
        async with HttpTransport(unix_socket=socket) as transport:
            facts = await transport.request("GET", f"{path}/json", headers={})
            if facts.status == HTTPStatus.NOT_FOUND:
                raise NotFound(f"{missing} has no image of that name")
            async with transport.stream(
                "GET", f"{path}/get", headers={}, timeout=_EXPORT_TIMEOUT
            ) as answer:
                if answer.status != HTTPStatus.OK:
                    raise NotFound(f"{missing} at {socket} answers with status {answer.status}")
                with target.open("wb") as file:
                    async for data in answer.chunks:
                        await asyncio.to_thread(file.write, data)
    except Unavailable as error:
        raise NotFound(f"{missing} at {socket} does not answer: {error.message}") from error
    return target


def is_rootfs(tops: set[str]) -> bool:
    """Whether the top-level names look like a root file system."""
    return not _TOPS.isdisjoint(tops)


def read_rootfs_tar(
    path: Path,
    folder: Path,
    *,
    architecture: str,
    source: str,
    steps: ImageSteps = UNWATCHED,
) -> ImageParts:
    """The parts of an image whose only layer is the (uncompressed) tar `path`."""
    layer = plain_layer(
        Slice(path, 0, path.stat().st_size), folder / "layer.tar", source, steps=steps
    )
    config = make_config(
        [layer], architecture=architecture, created_by=f"lading image add {Path(source).name}"
    )
    return ImageParts(config=config, layers=(layer,))


def read_rootfs_directory(
    path: Path, folder: Path, *, architecture: str, steps: ImageSteps = UNWATCHED
) -> ImageParts:
    """The parts of an image whose only layer is the directory `path`. Raises Invalid for an
    unreadable file.
    """
    layer = write_layer(_entries(path, steps), folder / "layer.tar", steps=steps)
    config = make_config(
        [layer], architecture=architecture, created_by=f"lading image add {path.resolve().name}"
    )
    return ImageParts(config=config, layers=(layer,))


def _entries(root: Path, steps: ImageSteps) -> Iterator[LayerEntry]:
    # Without it, os.walk leaves out unreadable directories.
    def refuse(error: OSError) -> None:
        raise Invalid(f"{error.filename}: cannot be put into the image: {error.strerror}")

    for folder, names, files in os.walk(root, onerror=refuse):
        steps.at("listing the directory")
        for name in (*names, *files):
            path = Path(folder, name)
            status = path.lstat()
            if not any(is_kind(status.st_mode) for is_kind in _KEPT):
                continue
            yield LayerEntry(
                path="/" + os.path.relpath(path, root),
                mode=status.st_mode,
                source=path if stat.S_ISREG(status.st_mode) else None,
                target=str(path.readlink()) if stat.S_ISLNK(status.st_mode) else "",
                owner=(status.st_uid, status.st_gid),
                modified=int(status.st_mtime),
            )


class DockerManifestEntry(msgspec.Struct, frozen=True, rename="pascal"):
    """One image of a docker-save `manifest.json`."""

    config: str
    layers: list[str]
    repo_tags: list[str] | None = None


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """A reference to an OCI blob."""

    digest: str
    media_type: str = ""
    platform: Platform | None = None
    annotations: dict[str, str] = {}


class Index(msgspec.Struct, frozen=True, rename="camel"):
    """An OCI index or manifest, distinguished by their fields."""

    manifests: list[Descriptor] | None = None
    config: Descriptor | None = None
    layers: list[Descriptor] = []
    artifact_type: str = ""

    @property
    def is_artifact(self) -> bool:
        """Whether a manifest is something else than an image: a signature, a statement, a chart
        (the OCI image specification, section Artifact usage). Old manifests have no media types.
        """
        config = self.config.media_type if self.config is not None else ""
        layers = (layer.media_type for layer in self.layers)
        return (
            bool(self.artifact_type)
            or config not in IMAGE_CONFIGS
            or any(kind and "tar" not in kind for kind in layers)
        )


def read_saved(
    members: Members, folder: Path, *, architecture: str, steps: ImageSteps = UNWATCHED
) -> ImageParts:
    """The parts of the image in a docker-save archive.

    Raises Malformed when it is damaged, Invalid when it contains several images, or one for another
    architecture.
    """
    try:
        images = msgspec.json.decode(
            read_document(members, "manifest.json"), type=list[DockerManifestEntry]
        )
    except UNREADABLE as error:
        raise Malformed(f"{members.source}: damaged image: manifest.json: {error}") from error
    if len(images) != 1:
        names = sorted(name for image in images for name in image.repo_tags or ("<none>",))
        raise Invalid(
            f"{members.source}: holds {len(images)} images ({', '.join(names)}); save one at a time"
        )
    config = read_document(members, images[0].config)
    described = read_config(config)
    _check_architecture(members, described, architecture)
    layers = read_layers(members, images[0].layers, described.rootfs.diff_ids, folder, steps=steps)
    return ImageParts(config=config, layers=layers, names=tuple(images[0].repo_tags or ()))


def read_oci(
    members: Members, folder: Path, *, architecture: str, steps: ImageSteps = UNWATCHED
) -> ImageParts:
    """The parts of the image for `architecture` in an OCI layout.

    Raises Malformed when it is damaged, Invalid when it contains none or several for this
    architecture.
    """
    top = _index(members, "index.json")
    fitting = list(_manifests(members, top, "", architecture=architecture, depth=0))
    if not fitting:
        raise Invalid(f"{members.source}: holds no image for linux/{architecture}")
    # An image may be listed under several names.
    if len({match[1].digest for match in fitting}) > 1:
        raise Invalid(f"{members.source}: holds {len(fitting)} images; copy one at a time")
    manifest, _, name = fitting[0]
    if manifest.config is None:
        raise Malformed(f"{members.source}: damaged image: a manifest has no configuration")
    config = read_document(members, _blob(members, manifest.config.digest))
    described = read_config(config)
    _check_architecture(members, described, architecture)
    blobs = [_blob(members, layer.digest) for layer in manifest.layers]
    layers = read_layers(members, blobs, described.rootfs.diff_ids, folder, steps=steps)
    return ImageParts(config=config, layers=layers, names=(name,) if name else ())


def _check_architecture(members: Members, described: ArchiveConfig, architecture: str) -> None:
    if not runs_on(described.architecture, architecture):
        raise Invalid(
            f"{members.source}: is for {described.architecture}, not for {architecture}; "
            f"name the machines that it is for, --platform linux/{described.architecture}"
        )


def _manifests(
    members: Members, index: Index, name: str, *, architecture: str, depth: int
) -> Iterator[tuple[Index, Descriptor, str]]:
    """Manifests for an architecture, which need not be there for the others: Docker's containerd
    store saves the indexes of a registry whole.
    """
    if depth > _MAX_NESTING:
        raise Malformed(f"{members.source}: damaged image: its indexes are nested too deeply")
    for descriptor in index.manifests or ():
        if descriptor.platform is not None and not _fits(descriptor.platform, architecture):
            continue
        inner = _index(members, _blob(members, descriptor.digest))
        label = (
            descriptor.annotations.get(_FULL_NAME) or descriptor.annotations.get(_REF_NAME) or name
        )
        if inner.manifests is not None:
            yield from _manifests(members, inner, label, architecture=architecture, depth=depth + 1)
        elif not inner.is_artifact:
            yield inner, descriptor, label


def _index(members: Members, name: str) -> Index:
    try:
        return msgspec.json.decode(read_document(members, name), type=Index)
    except UNREADABLE as error:
        raise Malformed(f"{members.source}: damaged image: {name}: {error}") from error


def _blob(members: Members, digest: str) -> str:
    algorithm, _, value = digest.partition(":")
    # The digest becomes a path, and comes from the image.
    if not (algorithm.isalnum() and value.isalnum()):
        raise Malformed(f"{members.source}: damaged image: {digest!r} is no digest")
    return f"blobs/{algorithm}/{value}"


def _fits(platform: Platform, architecture: str) -> bool:
    return platform.os in ("", "linux") and platform.architecture in ("", architecture)
