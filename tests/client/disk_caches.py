"""The kinds of disk caches that the product has, for one conformance list; and a process to kill.

    python -m tests.client.disk_caches KIND DIRECTORY STAGE

builds the entry `KEY` as far as STAGE (`written`, `renamed` or `published`), says so, and waits for
the end of its standard input.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lading.client.caches.disk_cache import PAGE, DiskCache, Durability, EntryClaim
from lading.client.caches.entry_files import CacheLayout

KEY = "a" * 32


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A cache of the product: its layout, and whether entries are directories."""

    name: str
    layout: CacheLayout
    durability: Durability = Durability.UNSYNCED
    is_directory: bool = False

    def cache(self, root: Path, limit: int = 1 << 20, **more: Any) -> DiskCache:
        """The cache as one process sees it."""
        root.mkdir(exist_ok=True)
        return DiskCache(root, limit, layout=self.layout, durability=self.durability, **more)

    def write(self, claim: EntryClaim, data: bytes) -> None:
        """Write an entry, not published yet."""
        if not self.layout.lock:
            assert not self.layout.has_ledger or claim.reserve(len(data))
            os.ftruncate(claim.descriptor, 0)
            os.pwrite(claim.descriptor, data, 0)
            return
        claim.start_over()
        if self.is_directory:
            claim.part.mkdir()
            (claim.part / "file").write_bytes(data)
        else:
            claim.part.write_bytes(data)

    def read(self, path: Path) -> bytes:
        """The content of an entry."""
        return (path / "file" if self.is_directory else path).read_bytes()


KINDS = (
    Kind(name="blocks", layout=CacheLayout(pattern="???/*", fan_out=3, page=PAGE, has_ledger=True)),
    Kind(name="layers", layout=CacheLayout(keeps_parts=True)),
    Kind(
        name="trees",
        layout=CacheLayout(pattern="*.lock", lock="{}.lock"),
        durability=Durability.BOOT,
        is_directory=True,
    ),
    Kind(name="images", layout=CacheLayout(suffix=".json", pattern="*.lock", lock="{}.lock")),
    Kind(
        name="runners",
        layout=CacheLayout(lock="{}.lock"),
        durability=Durability.SYNCED,
        is_directory=True,
    ),
)


def main(name: str, root: str, stage: str) -> None:
    """Build an entry as far as `stage`."""
    kind = next(one for one in KINDS if one.name == name)
    cache = kind.cache(Path(root))
    claim = cache.wait_for_claim(KEY)
    assert claim is not None
    kind.write(claim, b"half" if stage == "written" else b"whole")
    if stage == "renamed":
        cache.publish(KEY)
    elif stage == "published":
        claim.publish(5)
    sys.stdout.write(f"{stage}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
