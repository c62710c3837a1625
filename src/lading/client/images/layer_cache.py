"""A cache of the layers that were fetched from registries.

Layers are kept on this machine by their digest in a `DiskCache`:

    <directory>/sha256/<hex>         a whole layer as the registry has it, verified before it gets
                                     this name
    <directory>/sha256/<hex>.part    a layer that is being fetched, continued at its end, also
                                     after a kill

Images share layers: the next version of an image fetches only its new ones. Layers that were unused
for 30 days are deleted, and the oldest ones when they have more than `room` bytes. If the cache is
lost, layers are fetched again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lading.client.caches.disk_cache import DiskCache
from lading.client.caches.entry_files import CacheLayout
from lading.client.images.archive import sha256_of
from lading.core.errors import Conflict, Malformed

# Bytes of all layers: 16 GiB.
ROOM = 16 << 30
# Layers of images that are pulled once a month stay.
_KEPT_DAYS = 30


class LayerCache:
    """The layers below one directory, which is created if absent."""

    def __init__(self, directory: Path, *, room: int = ROOM) -> None:
        self.directory = directory
        self._cache = DiskCache(directory / "sha256", room, layout=CacheLayout(keeps_parts=True))
        self._cache.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def member(self, digest: str) -> str:
        """The name of a layer below the directory."""
        return digest.replace(":", "/")

    def has(self, digest: str) -> bool:
        """Whether the layer is here, whole; one that no longer has its digest is removed."""
        held = self._cache.hold(_key(digest))
        if held is None:
            return False
        with os.fdopen(held, "rb") as file:
            is_sound = sha256_of(file) == digest
        if not is_sound:
            self._cache.remove(_key(digest))
        return is_sound

    def is_listed(self, digest: str) -> bool:
        """Whether there is a layer of this name, which `has` has still to check."""
        return (self.directory / self.member(digest)).exists()

    @contextmanager
    def part(self, digest: str) -> Generator[BinaryIO]:
        """The partial layer, open for appending. Raises Conflict while another process
        fetches it.
        """
        descriptor = self._cache.lock(_key(digest), wait=False)
        if descriptor is None:
            raise Conflict(f"{digest[:19]}: another command fetches this layer; wait for it")
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            yield file

    def keep(self, digest: str) -> None:
        """Rename the partial layer to the complete one. Raises Malformed, and removes it, if its
        digest differs.
        """
        path = self._cache.part(_key(digest))
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if f"sha256:{found}" != digest:
            path.unlink()
            raise Malformed(
                f"layer {digest[:19]}: what the registry sent is sha256:{found[:12]}; try again"
            )
        self._cache.publish(_key(digest))

    def tidy(self) -> None:
        """Delete layers that were not used for long, and the oldest ones beyond the room."""
        self._cache.evict(unused_since=time.time() - _KEPT_DAYS * 86400)


def _key(digest: str) -> str:
    """The hexadecimal digits of `sha256:<hex>`."""
    return digest.removeprefix("sha256:")
