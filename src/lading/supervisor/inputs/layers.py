"""Unpacked image layers, each stored once on this machine, named by the hash of its content.

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
import logging
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lading import removal
from lading.client.disk_cache import CacheLayout, DiskCache, EntryClaim, is_full
from lading.core.containers.disk_space import AUTOMATIC, Amount
from lading.core.errors import ExecutionError, Failure, Unavailable
from lading.core.images import ImageConfig
from lading.supervisor.engines import ImageSource
from lading.supervisor.inputs.image_archive import (
    GROWTH,
    ImageArchive,
    check_layer,
    fetch,
    is_of_the_dead,
    sweep,
)
from lading.supervisor.inputs.unpack import unpack_layer

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
