"""Image layers that are unpacked once on a machine, or on a node that Pods share.

    <cache>/images/<pdh>.json   the parts of an image, an entry of a `DiskCache`
    <cache>/images/<pdh>.lock   shared lock: in use
    <cache>/layers/<sha256>.any/      one layer as overlayfs wants it: whiteouts are devices 0/0 or
                                      an attribute
    <cache>/layers/<sha256>.<sha256>/ one that depends on the layers below it, by its own hash and
                                      one of theirs; or several merged into one
    <cache>/layers/.lock        shared lock: a process unpacks; exclusive: one removes layers
    <cache>/layers/.lock-<2>    exclusive lock: a layer is built whose hash begins with these digits

A layer is built in a temporary directory and renamed, so it is complete or absent. Its hash is
checked during unpacking. When the layer exists already, the one in the archive is hashed
nevertheless, once for each image: knowing a hash alone gives nobody the content of another image.

Processes that unpack different images work at the same time; a layer of both is built once. No file
is taken for abandoned because no process of this machine has a number: Pods that share a directory
have process numbers of their own. The locks tell.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from lading.client.caches.disk_cache import DiskCache, EntryClaim
from lading.client.caches.disk_space import check_room
from lading.client.caches.entry_files import CacheLayout, is_full, try_lock
from lading.core import user_ids
from lading.core.containers.disk_space import AUTOMATIC, Amount
from lading.core.errors import ExecutionError, Failure, Unavailable
from lading.core.image_layers import merged_below, place_of_layer
from lading.core.images import MOST_ELEMENTS, ImageConfig
from lading.core.remarks import Remarks
from lading.process import removal
from lading.process.cancellation import Stop, Stopped
from lading.process.concurrency import in_thread
from lading.process.confined import ConfinedTree
from lading.supervisor.engines import ImageSource
from lading.supervisor.inputs.merged_layers import MergedLayers

# Most containers find their image unpacked: what unpacking needs is imported when there is none.
if TYPE_CHECKING:
    from lading.supervisor.inputs.image_archive import ImageArchive
    from lading.supervisor.inputs.layer_writer import Watch
    from lading.supervisor.inputs.unpack import LayerContent

_NEW = ".new-"
# Bytes for which the disk must have room at each check during unpacking: about those between two.
_STRIDE = 4 << 20
_logger = logging.getLogger("lading.supervisor")
_LAYOUT = CacheLayout(suffix=".json", pattern="*.lock", lock="{}.lock")


class Unpacked(msgspec.Struct, frozen=True, kw_only=True):
    """An image that is ready: its configuration, and the directories of its layers, lowest
    first.
    """

    config: ImageConfig
    layers: tuple[Path, ...]
    large_ids: frozenset[int] = frozenset()
    """Large ids (`core.user_ids`) of users and groups that its files belong to."""
    notes: tuple[str, ...] = ()
    """Remarks about entries that were left out, for the first container of the image alone."""

    def is_occupied(self, path: str) -> bool:
        """Whether there is anything at an absolute path but an empty directory. Raises OSError."""
        with MergedLayers(self.layers) as merged:
            return merged.is_occupied(path.lstrip("/"))


class _Description(msgspec.Struct, kw_only=True):
    """Description of an image in the cache; `size` is the bytes of its layers.

    `proven`: the archive of the image contained every layer. `large_ids`: those of its files.
    `layers`: names of their directories, lowest first. Without these the image counts as absent.
    """

    config: ImageConfig
    size: int
    proven: bool = False
    large_ids: frozenset[int] | None = None
    layers: tuple[str, ...] = ()


class LayerStore:
    """The layer store below one cache directory; any number of processes may use it at the same
    time.
    """

    def __init__(
        self,
        cache: Path,
        *,
        limit: int,
        reserve: Amount | None = None,
        user_ids: int = 0,
        is_merging: bool = False,
    ) -> None:
        """`limit`: most bytes of all images; `reserve`: free space of the disk that images leave.
        `user_ids`: an ordinary user with so many ids writes the layers; `is_merging`: all layers of
        an image become one directory. The layers of different settings must not share a cache.
        """
        self._user_ids, self._is_merging = user_ids, is_merging
        self._images = cache / "images"
        self._layers = cache / "layers"
        self._limit = limit
        # The images that were whole when they were looked at last, read once for check and use.
        self._unpacked: dict[str, Unpacked] = {}
        self._notes: dict[str, tuple[str, ...]] = {}
        self._cache = DiskCache(
            self._images,
            limit,
            layout=_LAYOUT,
            weigh=_size,
            is_whole=self._is_whole,
        )
        self._reserve = reserve or Amount(AUTOMATIC, AUTOMATIC)

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
        notes = self._notes.pop(image.pdh, ())
        return structs.replace(self._unpacked[image.pdh], notes=notes), lease

    def _is_whole(self, pdh: str) -> bool:
        found = self._find(pdh)
        if found is not None:
            self._unpacked[pdh] = found
        return found is not None

    def _find(self, pdh: str) -> Unpacked | None:
        description = _read(self._cache.path(pdh))
        if description is None or not description.proven or description.large_ids is None:
            return None
        layers = tuple(self._layers / name for name in description.layers)
        if not layers or not all(directory.is_dir() for directory in layers):
            return None
        return Unpacked(config=description.config, layers=layers, large_ids=description.large_ids)

    async def _unpack(self, image: ImageSource, claim: EntryClaim) -> None:
        from lading.supervisor.inputs import image_archive

        lock = self._open_lock("")
        # No other process has this name: the claim is the lock of the image.
        archive = self._images / f".{image.pdh}.tar"
        try:
            # In a thread: another process may remove layers now.
            await asyncio.to_thread(self._begin, lock)
            await image_archive.fetch(image, archive, reserve=self._reserve)
            description = await in_thread(
                lambda stop, _: self._unpack_archive(
                    archive, image.pdh, self._watch(stop, image.pdh), stop
                )
            )
            claim.part.write_bytes(msgspec.json.encode(description))
            claim.publish(description.size)
            await asyncio.to_thread(self._finish, lock)
        except OSError as error:
            failure = Failure.DISK if is_full(error) else Failure.NODE
            raise ExecutionError(
                f"image {image.pdh}: cannot be unpacked: {error.strerror}", failure
            ) from error
        finally:
            archive.unlink(missing_ok=True)
            os.close(lock)

    def _watch(self, stop: Stop, pdh: str) -> Watch:
        """Ends the unpacking of an image when it is cancelled, or when the disk has no room."""

        def watch() -> None:
            if stop():
                raise Stopped
            check_room(self._layers, self._reserve, need=_STRIDE, subject=f"image {pdh}")

        return watch

    def _unpack_archive(self, archive: Path, pdh: str, watch: Watch, stop: Stop) -> _Description:
        from lading.supervisor.inputs.image_archive import ImageArchive

        remarks: list[str] = []
        with ImageArchive(archive) as opened:
            config = opened.config
            limit, size = opened.limit(self._limit), 0
            layers = len(config.diff_ids)
            number = layers if self._is_merging else merged_below(layers)
            names: list[str] = []
            if number:
                name, size = self._merge(opened, number, limit, watch, remarks)
                names = [name]
            for at in range(number, len(config.diff_ids)):
                name, bytes_ = self._unpack_layer(
                    opened, at, names, max(limit - size, 0), watch, remarks
                )
                names.append(name)
                size += bytes_
        # One layer may be in an image twice; overlayfs does not take a directory twice, and the
        # upper one hides the lower one.
        places = tuple(reversed(dict.fromkeys(reversed(names))))
        self._notes[pdh] = tuple(remarks)
        ids = user_ids.large(self._owners(places, stop))
        return _Description(config=config, size=size, proven=True, large_ids=ids, layers=places)

    def _owners(self, layers: Sequence[str], stop: Stop) -> Iterator[int]:
        """Users and groups of all files of an image's layers."""
        for name in layers:
            with ConfinedTree.open(self._layers / name) as tree:
                for status in tree.survey(max_depth=MOST_ELEMENTS, stop=stop):
                    yield status.st_uid
                    yield status.st_gid

    def _unpack_layer(
        self,
        archive: ImageArchive,
        number: int,
        below: Sequence[str],
        limit: int,
        watch: Watch,
        remarks: list[str],
    ) -> tuple[str, int]:
        """Unpack a layer of at most `limit` bytes onto the directories `below` unless it is there;
        the name of its directory, and the bytes it takes.
        """
        ids, member = archive.config.diff_ids, archive.saved.layers[number]
        with self._building(ids[number].removeprefix("sha256:")):
            for is_bound in (False, True):
                name = place_of_layer(ids, number, is_bound=is_bound)
                if (self._layers / name).is_dir():
                    break
            else:
                from lading.supervisor.inputs import unpack
                from lading.supervisor.inputs.merged_layers import MergedLayers

                def build(aside: Path) -> LayerContent:
                    paths = [
                        self._layers / directory_name for directory_name in dict.fromkeys(below)
                    ]
                    with archive.open(member) as source, MergedLayers(paths) as merged:
                        return unpack.unpack_layer(
                            source,
                            aside,
                            limit=limit,
                            watch=watch,
                            below=merged,
                            user_ids=self._user_ids,
                        )

                return self._build(archive, number, build, remarks)
        # Another image has brought this layer. Naming its hash is no proof that this image contains
        # it.
        return name, archive.prove_layer(member, ids[number], limit=limit, watch=watch)

    def _build(
        self,
        archive: ImageArchive,
        number: int,
        build: Callable[[Path], LayerContent],
        remarks: list[str],
    ) -> tuple[str, int]:
        """Build the directory of a layer aside, and give it its name; the name, and its bytes."""
        from lading.supervisor.inputs import image_archive

        ids = archive.config.diff_ids
        aside = self._layers / (_NEW + ids[number].removeprefix("sha256:"))
        # A process may have been killed while it built this layer.
        self._discard(aside)
        try:
            content = build(aside)
            image_archive.check_layer(archive.saved.layers[number], content.digest, ids[number])
            name = place_of_layer(ids, number, is_bound=content.is_bound)
            aside.rename(self._layers / name)
        finally:
            self._try_to_discard(aside)
        remarks += content.left_out.lines()
        return name, max(content.size, content.unpacked)

    def _merge(
        self, archive: ImageArchive, number: int, limit: int, watch: Watch, remarks: list[str]
    ) -> tuple[str, int]:
        """Unpack the lowest `number` layers into one directory; its name, and the bytes it
        takes.
        """
        from lading.supervisor.inputs import image_archive, unpack

        ids, members = archive.config.diff_ids[:number], archive.saved.layers[:number]
        name, size = place_of_layer(ids, number - 1, is_bound=True), 0
        with self._building(ids[-1].removeprefix("sha256:")):
            if (self._layers / name).is_dir():
                for member, diff_id in zip(members, ids, strict=True):
                    left = max(limit - size, 0)
                    size += archive.prove_layer(member, diff_id, limit=left, watch=watch)
                return name, size

            def build(aside: Path) -> LayerContent:
                nonlocal size
                aside.mkdir(mode=0o755)
                for member, diff_id in zip(members, ids, strict=True):
                    with archive.open(member) as source:
                        content = unpack.merge_layer(
                            source,
                            aside,
                            limit=max(limit - size, 0),
                            watch=watch,
                            user_ids=self._user_ids,
                        )
                    image_archive.check_layer(member, content.digest, diff_id)
                    size += max(content.size, content.unpacked)
                    remarks.extend(content.left_out.lines())
                return structs.replace(content, size=size, is_bound=True, left_out=Remarks())

            return self._build(archive, number - 1, build, remarks)

    def _open_lock(self, name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        return os.open(self._layers / f".lock{name}", flags, 0o600)

    @contextmanager
    def _building(self, digest: str) -> Iterator[None]:
        """Hold the lock of a layer that is built. Blocks."""
        # Few locks for all layers, so that they can stay: to remove one is not safe.
        lock = self._open_lock(f"-{digest[:2]}")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _begin(self, lock: int) -> None:
        """Take the shared lock of all that unpack; before, remove what killed ones left, unless
        another process unpacks. Blocks.
        """
        if try_lock(lock, fcntl.LOCK_EX):
            self._sweep()
        fcntl.flock(lock, fcntl.LOCK_SH)

    def _finish(self, lock: int) -> None:
        """Evict images and layers, if no other process unpacks an image: the layers that it has
        unpacked belong to no image yet. That process evicts when it has ended.
        """
        if try_lock(lock, fcntl.LOCK_EX):
            self._evict()

    def _sweep(self) -> None:
        """Remove temporary directories and files of processes that were killed."""
        from lading.supervisor.inputs import image_archive

        for path in self._layers.glob(f"{_NEW}*"):
            lock = self._open_lock(f"-{path.name.rpartition('-')[2][:2]}")
            try:
                # A thread of a cancelled call may still build it.
                if try_lock(lock, fcntl.LOCK_EX):
                    self._try_to_discard(path)
            finally:
                os.close(lock)
        image_archive.sweep(self._images)

    def _evict(self) -> None:
        """Remove the least recently used images until the rest fits the limit, then the unused
        layers.
        """
        self._cache.evict()
        needed = {
            name
            for path in self._images.glob("*.json")
            if not path.name.startswith(".")
            for name in _layers(path)
        }
        for layer in self._layers.iterdir():
            if not layer.name.startswith(".") and layer.name not in needed:
                self._try_to_discard(layer)

    def _discard(self, path: Path) -> None:
        """Remove a file or directory from its place. Raises OSError."""
        removal.discard(path, aside=self._layers.parent / removal.NAME)

    def _try_to_discard(self, path: Path) -> None:
        """Like `_discard`, but an error is logged only, so that the other removals continue."""
        try:
            self._discard(path)
        except OSError as error:
            _logger.warning("%s: cannot be removed: %s", path, error)


def _size(path: Path) -> int:
    """Bytes of an image's layers, by its file."""
    description = _read(path)
    return description.size if description is not None else 0


def _layers(path: Path) -> tuple[str, ...]:
    description = _read(path)
    return description.layers if description is not None else ()


def _read(path: Path) -> _Description | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Description)
    except (OSError, msgspec.DecodeError):
        # An unreadable description counts as missing.
        return None
