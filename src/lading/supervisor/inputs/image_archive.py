"""Images of containers: archives of untrusted origin, and layers that are unpacked once.

An image in a collection is found by its portable data hash; its archive, in docker-save layout, is
read only when an engine needs it.

An archive names its layers and itself by hashes. A user who knows such a hash, but not the content,
could name it to get content that another user's archive has brought to this machine. So nothing is
used by its hash before the present archive was seen to contain that content (`prove`), once for
each collection.

Unpacked layers are stored once on this machine, named by the hash of their content:

    <cache>/images/<pdh>.json   the parts of an image, an entry of a `DiskCache`
    <cache>/images/<pdh>.lock   shared lock: in use
    <cache>/layers/<sha256>/    one layer as overlayfs wants it: whiteouts are devices 0/0 or an
                                attribute
    <cache>/layers/.lock        held by the process that unpacks or evicts

A layer is built in a temporary directory and renamed, so it is complete or absent. Its hash is
checked during unpacking. When the layer exists already, the one in the archive is hashed
nevertheless, once for each image: knowing a hash alone gives nobody the content of another image.
An archive cannot write outside its layer: names and links are resolved inside the layer.
"""

from __future__ import annotations

import asyncio
import fcntl
import gzip
import hashlib
import logging
import os
import posixpath
import sys
import tarfile
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from lading import removal
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.collections import read_file
from lading.client.disk_cache import CacheLayout, DiskCache, EntryClaim, is_full
from lading.core import images
from lading.core.containers.disk_space import AUTOMATIC, Amount
from lading.core.data.filetree import File, from_manifest
from lading.core.errors import ExecutionError, Failure, LadingError, RequestError, Unavailable
from lading.core.images import ImageConfig, SavedImage, image_member
from lading.supervisor import linux
from lading.supervisor.engines import ImageSource
from lading.supervisor.inputs.unpack import TarReader, hash_layer, members, unpack_layer
from lading.supervisor.limits.disk_limits import check_room

# Bytes of a JSON document in an archive, which is read into memory.
MOST_DOCUMENT = 16 << 20
# An archive has a few members for each layer.
_MOST_MEMBERS = 10_000
# Links from one member to another; docker save makes one.
_MOST_LINKS = 10
# Bytes hashed at a time.
_CHUNK = 1 << 20
_BLOBS = "blobs/sha256/"
# An image larger than the cache is used nevertheless; one that decompresses to more than four times
# its size is refused.
GROWTH = 4
# Members from which daemons take names of images. The owner of an archive must not name images of
# the machine.
_INDEX = "index.json"
_NAMING = (images.MANIFEST, "repositories", _INDEX)
# Seconds. A proof that was not used for half a year is forgotten, and the image proven again.
_KEPT = 180 * 86400.0
_PROOFS = CacheLayout(suffix=".proven", pattern="*.proven")


class ImageArchive:
    """An archive on disk, as a context manager; its members are indexed when it is opened.

    All methods raise ExecutionError(IMAGE) for anything that is no such archive, and OSError.
    """

    def __init__(self, path: Path, *, most_members: int = _MOST_MEMBERS) -> None:
        self._path, self._most_members = path, most_members
        self._members: dict[str, tarfile.TarInfo] = {}
        try:
            self._tar = TarReader.open(path, "r:")
        except tarfile.TarError as error:
            raise _no_archive(error) from error
        try:
            for member in members(self._tar, most=self._most_members):
                self._members[posixpath.normpath(member.name)] = member
            self.saved: SavedImage = images.parse_manifest(self.document(images.MANIFEST))
            self._configuration = self.document(self.saved.config)
            self.config: ImageConfig = images.parse_config(
                self._configuration, layers=len(self.saved.layers)
            )
        except (tarfile.TarError, ValueError) as error:
            self._tar.close()
            raise _no_archive(error) from error
        except BaseException:
            self._tar.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    def open(self, name: str) -> IO[bytes]:
        """A file of the archive; links, by which docker save avoids repetition, are followed."""
        path, file = posixpath.normpath(name), None
        for _ in range(_MOST_LINKS):
            member = self._members.get(path)
            if member is None or member.isreg():
                file = self._tar.extractfile(member) if member is not None else None
                break
            above = posixpath.dirname(path) if member.issym() else ""
            path = posixpath.normpath(posixpath.join(above, member.linkname))
        if file is None:
            raise _fault(f"the image archive has no {name[:100]}; is it made by docker save?")
        return file

    def document(self, name: str) -> bytes:
        """The content of a small file."""
        with self.open(name) as file:
            data = file.read(MOST_DOCUMENT + 1)
        if len(data) > MOST_DOCUMENT:
            raise _fault(f"the image archive's {name[:100]} has more than {MOST_DOCUMENT} bytes")
        return data

    def prove_layer(self, member: str, diff_id: str, *, limit: int) -> int:
        """Check that a layer has the content of the hash in its name; return its size in the
        archive.
        """
        with self.open(member) as source:
            size = source.seek(0, 2)
            source.seek(0)
            try:
                found = hash_layer(source, limit=max(limit, GROWTH * size))
            except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise _fault(f"the image's layer {member[:100]} is damaged: {error}") from error
        check_layer(member, found, diff_id)
        return size

    def prove(self, identity: str, *, limit: int) -> None:
        """Check that the archive contains the image `sha256:<hex>`: its configuration, and the
        content of every layer.

        The identity is the hash of the configuration, or of an OCI manifest in the archive that
        names the configuration.
        """
        digest = f"sha256:{hashlib.sha256(self._configuration).hexdigest()}"
        if digest != identity and not self._leads_to(identity, digest):
            raise _fault(f"the image archive is named {identity}, but its content is {digest}")
        for member, diff_id in zip(self.saved.layers, self.config.diff_ids, strict=True):
            self.prove_layer(member, diff_id, limit=limit)

    def _leads_to(self, identity: str, digest: str) -> bool:
        """Whether a blob of the archive with this identity is a manifest of the configuration."""
        name = _BLOBS + identity.removeprefix("sha256:")
        if name not in self._members:
            return False
        data = self.document(name)
        try:
            manifest: Any = msgspec.json.decode(data)
            named = manifest["config"]["digest"]
        except (msgspec.DecodeError, KeyError, TypeError):
            # Not a manifest that names a configuration.
            return False
        return f"sha256:{hashlib.sha256(data).hexdigest()}" == identity and named == digest

    def nameless(self) -> Iterator[bytes]:
        """The bytes of the same archive without names of images, which daemons would give to other
        users.
        """
        with TarReader.open(self._path, "r:") as tar, self._path.open("rb") as file:
            for member in members(tar, most=self._most_members):
                if posixpath.normpath(member.name) not in _NAMING:
                    yield from _span(file, member.offset, tar.offset)
        manifest = [
            {"Config": self.saved.config, "RepoTags": None, "Layers": list(self.saved.layers)}
        ]
        # The manifest is appended without names. Two empty blocks end an archive.
        yield _document(images.MANIFEST, manifest)
        if _INDEX in self._members:
            yield _document(_INDEX, _without_annotations(self.document(_INDEX)))
        yield bytes(2 * tarfile.BLOCKSIZE)


class Proofs:
    """Proofs that a collection contains an image, one small file for each:
    `<directory>/<pdh>.proven`.
    """

    def __init__(self, directory: Path) -> None:
        # Some 100 bytes each: their age bounds them, not their size.
        self._cache = DiskCache(directory, sys.maxsize, layout=_PROOFS)

    def has(self, pdh: str, identity: str) -> bool:
        """Whether the collection was seen to hold the image."""
        try:
            held = self._cache.hold(pdh)
        except OSError:
            return False
        if held is None:
            return False
        with open(held, encoding="utf-8") as file:
            return file.read() == identity

    def add(self, pdh: str, identity: str) -> None:
        """Store a proof, and delete those unused for half a year. Raises OSError."""
        descriptor = self._cache.lock(pdh, wait=False)
        # A process that has the lock is about to write the same.
        if descriptor is not None:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.truncate(0)
                file.write(identity)
                file.flush()
                self._cache.publish(pdh)
        self._cache.evict(unused_since=time.time() - _KEPT)


def sweep(directory: Path) -> None:
    """Remove archives and half-written files of dead processes."""
    for path in (*directory.glob(".*.tar"), *directory.glob(".*.json")):
        if is_of_the_dead(path.name):
            path.unlink(missing_ok=True)


def is_of_the_dead(name: str) -> bool:
    """Whether the process whose number is in a name has ended."""
    parts = name.replace("-", ".").split(".")
    pid = next((int(part) for part in reversed(parts) if part.isdigit()), 0)
    return pid != os.getpid() and not linux.is_running(pid)


async def fetch(image: ImageSource, place: Path, *, kept: Amount) -> None:
    """Write the archive of an image to disk, leaving `kept` free. Raises ExecutionError,
    OSError.
    """
    with place.open("wb") as file:
        # Checked for each chunk: the size of the archive is not known here.
        async for chunk in image.chunks():
            check_room(place.parent, kept, need=len(chunk), what=f"image {image.pdh}")
            await asyncio.to_thread(file.write, chunk)


def check_layer(member: str, found: str, diff_id: str) -> None:
    """Compare the hash (hex) of a layer with the one in the image's configuration. Raises
    ExecutionError.
    """
    if f"sha256:{found}" != diff_id:
        raise _fault(
            f"the image's layer {member[:100]} has sha256:{found},"
            f" but its configuration says {diff_id}"
        )


async def stream(archive: ImageArchive) -> AsyncIterator[bytes]:
    """The bytes of `ImageArchive.nameless`, for a daemon."""
    for chunk in archive.nameless():
        yield chunk


def _span(file: IO[bytes], start: int, end: int) -> Iterator[bytes]:
    file.seek(start)
    while start < end and (data := file.read(min(_CHUNK, end - start))):
        start += len(data)
        yield data


def _document(name: str, content: object) -> bytes:
    """A small file as a member of an archive, padded to the block size."""
    data = msgspec.json.encode(content)
    head = tarfile.TarInfo(name)
    head.size = len(data)
    return head.tobuf(tarfile.PAX_FORMAT) + data + bytes(-len(data) % tarfile.BLOCKSIZE)


def _without_annotations(data: bytes) -> object:
    """An OCI index whose manifests have no names."""
    try:
        index: Any = msgspec.json.decode(data)
        index["manifests"] = [
            {key: value for key, value in one.items() if key != "annotations"}
            for one in index["manifests"]
        ]
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise _fault(f"the image archive's {_INDEX} cannot be read: {error}") from error
    return index


def _no_archive(error: Exception) -> ExecutionError:
    return _fault(f"the image is not a tar archive as docker save makes it: {error}")


def _fault(text: str) -> ExecutionError:
    return ExecutionError(text, Failure.IMAGE)


class CollectionImage:
    """The image in the collection with portable data hash `pdh`. Nothing is fetched before it is
    used.
    """

    def __init__(self, api: ApiClient, blocks: BlockClient, pdh: str) -> None:
        self._api = api
        self._blocks = blocks
        self._pdh = pdh
        self._found: tuple[str, File] | None = None

    @property
    def pdh(self) -> str:
        """Portable data hash of the collection."""
        return self._pdh

    async def name(self) -> str:
        """The id of the image, `sha256:<hex>`. Raises ExecutionError(IMAGE)."""
        return (await self._find())[0]

    async def chunks(self) -> AsyncIterator[bytes]:
        """The bytes of the archive. Raises ExecutionError(IMAGE)."""
        _, file = await self._find()
        try:
            async for chunk in read_file(self._blocks, file):
                yield chunk
        except LadingError as error:
            raise ExecutionError(
                f"image {self._pdh}: cannot be read: {error.message}", Failure.IMAGE
            ) from error

    async def _find(self) -> tuple[str, File]:
        if self._found is None:
            try:
                record = await self._api.get(
                    "collections", self._pdh, select=("uuid", "manifest_text")
                )
                entries = from_manifest(record["manifest_text"]).entries
            except RequestError as error:
                raise ExecutionError(
                    f"image {self._pdh}: {error.message}", Failure.IMAGE
                ) from error
            files = {name: node for name, node in entries.items() if isinstance(node, File)}
            member, identity = image_member(files)
            self._found = identity, files[member]
        return self._found


_LAYOUT = CacheLayout(suffix=".json", pattern="*.lock", lock="{}.lock")
_logger = logging.getLogger("lading.supervisor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """An image that is ready: its configuration, and the directories of its layers, lowest
    first.
    """

    config: ImageConfig
    layers: tuple[Path, ...]


class _Description(msgspec.Struct, kw_only=True):
    """Description of an image in the cache; `size` is the bytes of its layers.

    `proven`: the archive of the image contained every layer. Otherwise the image counts as absent.
    """

    config: ImageConfig
    size: int
    proven: bool = False


class LayerStore:
    """The layer store below one cache directory; any number of processes may use it at the same
    time.
    """

    def __init__(self, cache: Path, *, limit: int, kept: Amount | None = None) -> None:
        """`limit`: bytes of all images; `kept`: the configured reserve of the disk."""
        self._images = cache / "images"
        self._layers = cache / "layers"
        self._limit = limit
        # The images that were whole when they were looked at last, read once for check and use.
        self._found: dict[str, Unpacked] = {}
        self._cache = DiskCache(
            self._images,
            limit,
            layout=_LAYOUT,
            weigh=_size,
            is_whole=self._is_whole,
        )
        self._kept = kept or Amount(AUTOMATIC, AUTOMATIC)

    async def lease(self, image: ImageSource) -> tuple[Unpacked, int]:
        """The image, unpacked if necessary, and a descriptor that keeps it from eviction until it
        is closed.

        Raises ExecutionError(IMAGE) when it is no image, ExecutionError(DISK) when there is no
        space for it.
        """
        self._images.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._layers.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            lease = await self._cache.acquire(image.pdh, lambda claim: self._unpack(image, claim))
        except Unavailable as error:
            raise ExecutionError(
                f"image {image.pdh}: its layers are gone again; is the cache too small?",
                Failure.NODE,
            ) from error
        return self._found[image.pdh], lease

    def _is_whole(self, pdh: str) -> bool:
        found = self._find(pdh)
        if found is not None:
            self._found[pdh] = found
        return found is not None

    def _find(self, pdh: str) -> Unpacked | None:
        description = _read(self._cache.path(pdh))
        if description is None or not description.proven:
            return None
        config = description.config
        layers = tuple(self._layers / one.removeprefix("sha256:") for one in config.diff_ids)
        return (
            Unpacked(config=config, layers=layers) if all(one.is_dir() for one in layers) else None
        )

    async def _unpack(self, image: ImageSource, claim: EntryClaim) -> None:
        lock = os.open(self._layers / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        archive = self._images / f".{image.pdh}.{os.getpid()}.tar"
        try:
            # In a thread: another process may hold the lock for as long as it unpacks.
            await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
            self._sweep()
            await fetch(image, archive, kept=self._kept)
            config, size = await asyncio.to_thread(self._unpack_archive, archive)
            claim.part.write_bytes(
                msgspec.json.encode(_Description(config=config, size=size, proven=True))
            )
            claim.publish(size)
            await asyncio.to_thread(self._evict)
        except OSError as error:
            failure = Failure.DISK if is_full(error) else Failure.NODE
            raise ExecutionError(
                f"image {image.pdh}: cannot be unpacked: {error.strerror}", failure
            ) from error
        finally:
            archive.unlink(missing_ok=True)
            os.close(lock)

    def _unpack_archive(self, archive: Path) -> tuple[ImageConfig, int]:
        with ImageArchive(archive) as opened:
            config = opened.config
            size = sum(
                self._unpack_layer(opened, member, diff_id)
                for member, diff_id in zip(opened.saved.layers, config.diff_ids, strict=True)
            )
        return config, size

    def _unpack_layer(self, archive: ImageArchive, member: str, diff_id: str) -> int:
        digest = diff_id.removeprefix("sha256:")
        target = self._layers / digest
        if target.is_dir():
            # Another image has brought this layer. Naming its hash is no proof that this image
            # contains it.
            return archive.prove_layer(member, diff_id, limit=self._limit)
        aside = self._layers / f".new-{os.getpid()}-{digest}"
        try:
            with archive.open(member) as source:
                size = source.seek(0, os.SEEK_END)
                source.seek(0)
                found = unpack_layer(source, aside, limit=max(self._limit, GROWTH * size))
            check_layer(member, found, diff_id)
            aside.rename(target)
        finally:
            self._try_to_discard(aside)
        return size

    def _sweep(self) -> None:
        """Remove temporary directories and files of processes that died during unpacking."""
        for path in self._layers.glob(".new-*"):
            if is_of_the_dead(path.name):
                self._try_to_discard(path)
        sweep(self._images)

    def _evict(self) -> None:
        """Remove the least recently used images until the rest fits the limit, then the unused
        layers.
        """
        self._cache.evict()
        kept = {
            one.removeprefix("sha256:")
            for path in self._images.glob("*.json")
            if not path.name.startswith(".")
            for one in _diff_ids(path)
        }
        for layer in self._layers.iterdir():
            if not layer.name.startswith(".") and layer.name not in kept:
                self._try_to_discard(layer)

    def _discard(self, place: Path) -> None:
        """Remove a file or directory from its place. Raises OSError."""
        removal.discard(place, aside=self._layers.parent / removal.NAME)

    def _try_to_discard(self, place: Path) -> None:
        """Like `_discard`, but an error is logged only, so that the other removals continue."""
        try:
            self._discard(place)
        except OSError as error:
            _logger.warning("%s: cannot be removed: %s", place, error)


def _size(path: Path) -> int:
    """Bytes of an image's layers, by its file."""
    description = _read(path)
    return description.size if description is not None else 0


def _diff_ids(path: Path) -> tuple[str, ...]:
    description = _read(path)
    return description.config.diff_ids if description is not None else ()


def _read(path: Path) -> _Description | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Description)
    except (OSError, msgspec.DecodeError):
        # An unreadable description counts as missing.
        return None
