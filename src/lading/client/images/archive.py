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

`Members` reads files of an image archive or directory by name, without unpacking it. The names are
untrusted: links are followed inside the archive only, and nothing outside a directory is read.

Source: docs/spec/containers, section Images.
"""

from __future__ import annotations

import hashlib
import io
import math
import posixpath
import resource
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol, cast

import msgspec

from lading.client.images.steps import UNWATCHED, ImageSteps
from lading.client.images.tar_reader import TarReader, members
from lading.core.errors import Full, Invalid, Malformed
from lading.core.images import UNREADABLE

# Bytes read at a time.
_CHUNK = 1 << 20
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
# Bytes of a manifest or configuration; more is refused as damaged.
_MAX_DOCUMENT = 16 << 20
# Links that are followed for one name; a loop ends here.
_MAX_LINKS = 8
# First bytes of compressed files, and the program that uncompresses them.
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


class Platform(msgspec.Struct, frozen=True):
    """The platform of an image."""

    architecture: str = ""
    os: str = ""
    variant: str = ""

    @property
    def text(self) -> str:
        """For example `linux/arm64/v8`."""
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


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
    while data := file.read(_CHUNK if left is None else min(_CHUNK, left)):
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


class Slice(msgspec.Struct, frozen=True):
    """`size` bytes at `offset` of the file `path`."""

    path: Path
    offset: int
    size: int


class Members(Protocol):
    """Files by name."""

    source: str

    def find(self, name: str) -> Slice | None:
        """Position of the file with this name; None if there is none."""
        ...

    def tops(self) -> set[str]:
        """The first path components of all names."""
        ...


class _Member(msgspec.Struct, frozen=True):
    """What is read of an archive's header: the range of a file, or the name a link leads to."""

    is_file: bool
    is_sparse: bool
    offset: int
    size: int
    target: str


def _brief(member: tarfile.TarInfo, name: str) -> _Member:
    target = ""
    if member.issym():
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
    elif member.islnk():
        target = posixpath.normpath(member.linkname)
    return _Member(
        member.isreg(), member.issparse(), member.offset_data, max(member.size, 0), target
    )


class TarMembers:
    """The files of an uncompressed tar. Raises Malformed for other files."""

    def __init__(self, path: Path, source: str, *, steps: ImageSteps = UNWATCHED) -> None:
        self.source = source
        self._path = path
        # Not the headers themselves, of which an archive of a stranger has millions.
        self._members: dict[str, _Member] = {}
        try:
            with TarReader.open(path, "r:") as tar:
                for member in members(tar):
                    steps.check()
                    name = posixpath.normpath(member.name).lstrip("/")
                    self._members[name] = _brief(member, name)
        except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
            raise Malformed(f"{source}: neither an image nor a tar archive: {error}") from error

    def find(self, name: str) -> Slice | None:
        """Position of the file with this name; symbolic links are followed inside the archive."""
        name = posixpath.normpath(name)
        for _ in range(_MAX_LINKS):
            member = self._members.get(name)
            if member is None:
                return None
            if member.is_sparse:
                # Its data is stored without the holes, so it is not one range of the archive.
                raise Malformed(f"{self.source}: damaged image: {name[:100]!r} is a sparse file")
            if member.is_file:
                return Slice(self._path, member.offset, member.size)
            if not member.target:
                return None
            name = member.target
        return None

    def tops(self) -> set[str]:
        """The first path components of all names."""
        return {name.split("/", 1)[0] for name in self._members}


class DirectoryMembers:
    """The files below a directory."""

    def __init__(self, path: Path, source: str) -> None:
        self.source = source
        self._root = path.resolve()

    def find(self, name: str) -> Slice | None:
        """Position of the file with this name; files outside the directory are not found."""
        path = (self._root / name).resolve()
        if not path.is_relative_to(self._root) or not path.is_file():
            return None
        return Slice(path, 0, path.stat().st_size)

    def tops(self) -> set[str]:
        """The names in the directory."""
        return {path.name for path in self._root.iterdir()}


def read_document(members: Members, name: str, *, limit: int = _MAX_DOCUMENT) -> bytes:
    """The bytes of a small file. Raises Malformed when it is absent or has over `limit` bytes."""
    found = members.find(name)
    if found is None:
        raise Malformed(f"{members.source}: damaged image: {name} is missing")
    if found.size > limit:
        raise Malformed(f"{members.source}: damaged image: {name} has {found.size} bytes")
    with found.path.open("rb") as file:
        file.seek(found.offset)
        return file.read(found.size)


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
    found: Slice,
    target: Path,
    source: str,
    *,
    steps: ImageSteps = UNWATCHED,
    reserve: int | None = None,
) -> Layer:
    """The layer at `found`, uncompressed into the file `target` if it is compressed. `reserve`: the
    bytes of the disk that stay free; a tenth of the free ones if None.
    """
    found = uncompressed(found, target, source, steps=steps, reserve=reserve)
    with found.path.open("rb") as file:
        file.seek(found.offset)
        diff_id = sha256_of(steps.reading(file), found.size)
    return Layer(path=found.path, offset=found.offset, size=found.size, diff_id=diff_id)


def uncompressed(
    found: Slice,
    target: Path,
    source: str,
    *,
    steps: ImageSteps = UNWATCHED,
    reserve: int | None = None,
) -> Slice:
    """`found` itself, or the file `target` with its uncompressed content. `reserve` as for
    `plain_layer`. Raises Malformed, Invalid, Full.
    """
    with found.path.open("rb") as file:
        file.seek(found.offset)
        head = file.read(8)
        program = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
        if program is None:
            return found
        file.seek(found.offset)
        # A tenth of the free space stays for others.
        free = shutil.disk_usage(target.parent).free
        room = max(free - (free // 10 if reserve is None else reserve), 0)
        _uncompress(program, steps.reading(file), found.size, target, source, room, steps)
    return Slice(target, 0, target.stat().st_size)


def _uncompress(
    program: str,
    file: IO[bytes],
    size: int,
    target: Path,
    source: str,
    room: int,
    steps: ImageSteps,
) -> None:
    # In a separate process, because it runs in parallel, and zstd is in no supported version of
    # Python.
    try:
        with target.open("wb") as out:
            process = subprocess.Popen(
                [program, "-dc"], stdin=subprocess.PIPE, stdout=out, stderr=subprocess.DEVNULL
            )
        # A small file may expand without limit. The process has no input yet, so the limit applies
        # from the first byte.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (room, room))
    except FileNotFoundError:
        raise Invalid(
            f"{source}: compressed with {program}, which this machine lacks; "
            f"run 'apt install {program}'"
        ) from None
    assert process.stdin is not None
    # BrokenPipeError: the program ended early; its exit code is checked below.
    with (
        steps.ending(process, limit=math.inf),
        suppress(BrokenPipeError),
        process.stdin as pipe,
    ):
        while size > 0 and (data := file.read(min(_CHUNK, size))):
            pipe.write(data)
            size -= len(data)
    code = process.wait()
    # 128 + signal: the exit code if the program is a shell script.
    if code in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ) or target.stat().st_size >= room:
        raise Full(
            f"{source}: grows to more than the {room} bytes that are free in {target.parent}; "
            "is it meant to?"
        )
    if code != 0:
        raise Malformed(f"{source}: damaged: {program} cannot uncompress it")
