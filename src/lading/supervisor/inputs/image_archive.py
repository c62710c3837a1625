"""Archives of images in docker-save layout, of untrusted origin.

An archive names its layers and itself by hashes. A user who knows such a hash, but not the content,
could name it to get content that another user's archive has brought to this machine. So nothing is
used by its hash before the present archive was seen to contain that content (`prove`), once for
each collection.

An archive cannot write outside its layer: names and links are resolved inside the layer.
"""

from __future__ import annotations

import asyncio
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
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from lading.client.caches.disk_cache import DiskCache
from lading.client.caches.disk_space import check_room
from lading.client.caches.entry_files import CacheLayout
from lading.client.images.tar_reader import TarReader, members
from lading.core import images
from lading.core.containers.disk_space import Amount
from lading.core.errors import ExecutionError, Failure
from lading.core.images import ImageConfig, SavedImage
from lading.supervisor import linux
from lading.supervisor.engines import ImageSource
from lading.supervisor.inputs.layer_writer import Watch
from lading.supervisor.inputs.unpack import hash_layer, unwatched

# Bytes of a JSON document in an archive, which is read into memory.
MOST_DOCUMENT = 16 << 20
# An archive has a few members for each layer.
_MOST_MEMBERS = 10_000
# Links from one member to another; docker save makes one.
_MOST_LINKS = 10
# Bytes hashed at a time.
_CHUNK = 1 << 20
_BLOBS = "blobs/sha256/"
# An image larger than the cache is used nevertheless; one that decompresses to more than the cache
# and four times its size is refused.
GROWTH = 4
# Members from which daemons take names of images. The owner of an archive must not name images of
# the machine.
_INDEX = "index.json"
_NAMING = (images.MANIFEST, "repositories", _INDEX)
# Seconds. A proof that was not used for half a year is forgotten, and the image proven again.
_KEPT = 180 * 86400.0
_PROOFS = CacheLayout(suffix=".proven", pattern="*.proven")
_logger = logging.getLogger("lading.supervisor")


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
            self.configuration = self.document(self.saved.config)
            self.config: ImageConfig = images.parse_config(
                self.configuration, layers=len(self.saved.layers)
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
            if member is not None and member.issparse():
                # Its holes are read as any number of zeros, which nothing on the disk bounds.
                raise _fault(f"the image archive's {name[:100]} is a sparse file")
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

    def limit(self, least: int) -> int:
        """Most uncompressed bytes of all layers: `least`, or more for a large archive."""
        return max(least, GROWTH * self._path.stat().st_size)

    def prove_layer(
        self, member: str, diff_id: str, *, limit: int, watch: Watch = unwatched
    ) -> int:
        """Check that a layer has the content of the hash in its name; return its bytes,
        uncompressed.
        """
        with self.open(member) as source:
            try:
                found = hash_layer(source, limit=limit, watch=watch)
            except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise _fault(f"the image's layer {member[:100]} is damaged: {error}") from error
        check_layer(member, found.digest, diff_id)
        return found.size

    def prove(self, identity: str, *, limit: int, watch: Watch = unwatched) -> None:
        """Check that the archive contains the image `sha256:<hex>`: its configuration, and the
        content of every layer.

        The identity is the hash of the configuration, or of an OCI manifest in the archive that
        names the configuration.
        """
        digest = f"sha256:{hashlib.sha256(self.configuration).hexdigest()}"
        if digest != identity and not self._leads_to(identity, digest):
            raise _fault(f"the image archive is named {identity}, but its content is {digest}")
        left = self.limit(limit)
        for member, diff_id in zip(self.saved.layers, self.config.diff_ids, strict=True):
            left -= self.prove_layer(member, diff_id, limit=left, watch=watch)

    def _leads_to(self, identity: str, digest: str) -> bool:
        """Whether a blob of the archive with this identity is a manifest of the configuration."""
        name = _BLOBS + identity.removeprefix("sha256:")
        if name not in self._members:
            return False
        data = self.document(name)
        try:
            manifest: Any = msgspec.json.decode(data)
            named = manifest["config"]["digest"]
        except (*images.UNREADABLE, KeyError, TypeError):
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

    def find(self, pdh: str, identity: str) -> str | None:
        """The id of the daemon's image for a collection that was seen to hold the image `identity`,
        None for any other.
        """
        try:
            held = self._cache.hold(pdh)
        except OSError:
            return None
        if held is None:
            return None
        with open(held, encoding="utf-8") as file:
            # Earlier versions wrote one line, about images that were not scanned.
            proven, _, loaded = file.read().partition("\n")
        return loaded or None if proven == identity else None

    def add(self, pdh: str, identity: str, loaded: str) -> None:
        """Store a proof and the id of the daemon's image, and delete those unused for half a year.
        Raises OSError.
        """
        descriptor = self._cache.lock(pdh, wait=False)
        # A process that has the lock is about to write the same.
        if descriptor is not None:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.truncate(0)
                file.write(f"{identity}\n{loaded}")
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
    pid = next((int(element) for element in reversed(parts) if element.isdigit()), 0)
    return pid != os.getpid() and not linux.is_running(pid)


async def fetch(image: ImageSource, path: Path, *, reserve: Amount) -> None:
    """Write the archive of an image to disk, leaving `reserve` free. Raises ExecutionError,
    OSError.
    """
    with path.open("wb") as file:
        # Checked for each chunk: the size of the archive is not known here.
        async for chunk in image.chunks():
            check_room(path.parent, reserve, need=len(chunk), subject=f"image {image.pdh}")
            await asyncio.to_thread(file.write, chunk)


def check_layer(member: str, digest: str, diff_id: str) -> None:
    """Compare the hash (hex) of a layer with the one in the image's configuration. Raises
    ExecutionError.
    """
    if f"sha256:{digest}" != diff_id:
        raise _fault(
            f"the image's layer {member[:100]} has sha256:{digest},"
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
            {key: value for key, value in manifest.items() if key != "annotations"}
            for manifest in index["manifests"]
        ]
    except (*images.UNREADABLE, KeyError, TypeError, AttributeError) as error:
        raise _fault(f"the image archive's {_INDEX} cannot be read: {error}") from error
    return index


def _no_archive(error: Exception) -> ExecutionError:
    return _fault(f"the image is not a tar archive as docker save makes it: {error}")


def _fault(message: str) -> ExecutionError:
    return ExecutionError(message, Failure.IMAGE)
