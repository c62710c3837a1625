"""Layers fetched from registries, kept on this machine by their digest.

    <directory>/sha256/<hex>         a whole layer as the registry has it, verified before it gets
    this name <directory>/sha256/<hex>.part    one under way; fetching it goes on at its end, also
    after a kill

Images share layers: the next version of one fetches only what is new. Layers that nobody asked for
during 30 days are forgotten, and the oldest of them when there are more than `room` bytes. Losing
all of it costs time, nothing else.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from lading.client.images.archive import sha256_of
from lading.core.errors import Conflict, Malformed

ROOM = 16 << 30
_KEPT_DAYS = 30


class LayerShelf:
    """The layers below one directory, which is made when absent."""

    def __init__(self, directory: Path, *, room: int = ROOM) -> None:
        self.directory = directory
        self._room = room
        (directory / "sha256").mkdir(mode=0o700, parents=True, exist_ok=True)

    def member(self, digest: str) -> str:
        """The name of a layer below the directory."""
        return digest.replace(":", "/")

    def has(self, digest: str) -> bool:
        """Whether the layer is here, whole; one that no longer has its digest is removed."""
        path = self.directory / self.member(digest)
        try:
            with path.open("rb") as file:
                is_sound = sha256_of(file) == digest
        except FileNotFoundError:
            return False
        if is_sound:
            os.utime(path)
        else:
            path.unlink(missing_ok=True)
        return is_sound

    @contextmanager
    def part(self, digest: str) -> Generator[BinaryIO]:
        """What there is of a layer, open for appending. Raises Conflict while another process
        fetches it.
        """
        path = self._part(digest)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    f"{digest[:19]}: another command fetches this layer; wait for it"
                ) from None
            yield file

    def keep(self, digest: str) -> None:
        """Take the part as the whole layer. Raises Malformed, and removes it, when it does not have
        the digest.
        """
        path = self._part(digest)
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if f"sha256:{found}" != digest:
            path.unlink()
            raise Malformed(
                f"layer {digest[:19]}: what the registry sent is sha256:{found[:12]}; try again"
            )
        path.replace(self.directory / self.member(digest))

    def tidy(self) -> None:
        """Forget what has not been used for long, and the oldest beyond the room."""
        found = []
        for path in (self.directory / "sha256").iterdir():
            with suppress(FileNotFoundError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        limit, left = time.time() - _KEPT_DAYS * 86400, self._room
        for used, size, path in sorted(found, reverse=True):
            left -= size
            if used < limit or left < 0:
                path.unlink(missing_ok=True)

    def _part(self, digest: str) -> Path:
        return self.directory / f"{self.member(digest)}.part"
