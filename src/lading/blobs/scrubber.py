"""The scrubber: reads every block at a bounded rate and repairs damaged blocks.

A damaged block is rewritten from another volume with an intact copy. Without one it is quarantined,
so that the next put of the same data stores it again, and the affected collections and files are
reported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lading.blobs.collector import Hit, References
from lading.blobs.volume import Buffer, Stored
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.core.data.locator import MAX_BLOCK
from lading.core.errors import Conflict, Corrupt, NotFound, Unavailable
from lading.process.telemetry import event

_logger = logging.getLogger("lading.blobs.scrubber")
# Bytes of the smallest buffer.
_STRETCH: Final = 1 << 20


class Remedy(StrEnum):
    """Action on a damaged block."""

    REPAIRED = "repaired"
    QUARANTINED = "quarantined"
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A damaged block, the action, and the files that lost bytes if it was not repaired."""

    hash: str
    size: int
    volume: str
    remedy: Remedy
    hits: Sequence[Hit] = ()


@dataclass(slots=True, kw_only=True)
class Findings:
    """Findings of a scrub so far; `position` is "<volume> <hash>" of the last checked block."""

    blocks: int = 0
    bytes: int = 0
    position: str = ""
    damaged: list[Damage] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


Progress = Callable[[Findings], Awaitable[None]]


class Scrubber:
    """Checks blocks at `rate` bytes a second at most (0: no limit); `clock` returns monotonic
    seconds.
    """

    def __init__(
        self,
        mounts: VolumeSet,
        references: References,
        *,
        rate: int,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._mounts = mounts
        self._references = references
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._room = bytearray()

    async def run(self, *, after: str = "", volume: str = "", progress: Progress) -> Findings:
        """Check every block of every volume, or of one, that comes after a position."""
        findings = Findings(position=after)
        began = self._clock()
        for mount in sorted(self._mounts.all, key=lambda mount: mount.uuid):
            if volume in ("", mount.uuid):
                try:
                    await self._check_volume(mount, after, findings, began, progress)
                except Unavailable as error:
                    findings.failures.append(f"{mount.uuid}: {error.message}")
        event(
            _logger,
            "scrubbed",
            blocks=findings.blocks,
            bytes=findings.bytes,
            damaged=len(findings.damaged),
            failed=len(findings.failures),
        )
        return findings

    async def _check_volume(
        self, mount: VolumeMount, after: str, findings: Findings, began: float, progress: Progress
    ) -> None:
        async with aclosing(mount.volume.index()) as found:  # type: ignore[type-var]
            async for stored in found:
                position = f"{mount.uuid} {stored.hash}"
                # Both orders are the same: volumes by uuid, blocks by hash.
                if position <= after:
                    continue
                damage = await self._check(mount, stored)
                if damage is not None:
                    findings.damaged.append(damage)
                findings.blocks += 1
                findings.bytes += stored.size
                findings.position = position
                await progress(findings)
                # The rate holds on average since the start of this run.
                if self._rate:
                    await self._sleep(
                        max(0.0, findings.bytes / self._rate - (self._clock() - began))
                    )

    async def _check(self, mount: VolumeMount, stored: Stored) -> Damage | None:
        # One buffer for all blocks, as large as the largest so far.
        if stored.size > len(self._room):
            self._room = bytearray(min(MAX_BLOCK, max(_STRETCH, stored.size)))
        try:
            await self._mounts.attempt(mount, mount.volume.get(stored.hash, memoryview(self._room)))
        except NotFound:
            return None
        except Corrupt:
            return await self._mend(mount, stored)
        return None

    async def _mend(self, mount: VolumeMount, stored: Stored) -> Damage:
        whole = await self._find_whole(mount, stored.hash)
        remedy, hits = Remedy.LEFT, list[Hit]()
        if whole is not None and not mount.is_read_only:
            await self._mounts.attempt(mount, mount.volume.put(stored.hash, whole))
            remedy = Remedy.REPAIRED
        elif whole is None:
            # Reads every manifest; damage is rare.
            hits = await self._references.naming(stored.hash)
            if not mount.is_read_only and await self._take_away(mount, stored):
                remedy = Remedy.QUARANTINED
        event(
            _logger,
            "block damaged",
            block=stored.hash,
            volume=mount.uuid,
            remedy=remedy,
            collections=",".join(hit.uuid for hit in hits),
        )
        return Damage(
            hash=stored.hash, size=stored.size, volume=mount.uuid, remedy=remedy, hits=hits
        )

    async def _find_whole(self, damaged: VolumeMount, hash: str) -> Buffer | None:
        for mount in self._mounts.all:
            if mount is not damaged:
                try:
                    return await self._mounts.attempt(mount, mount.volume.get(hash))
                except (NotFound, Corrupt, Unavailable):
                    continue
        return None

    async def _take_away(self, mount: VolumeMount, stored: Stored) -> bool:
        try:
            await self._mounts.attempt(mount, mount.volume.quarantine(stored.hash, stored.mtime_ns))
        except (Conflict, NotFound):
            # The block was put again and is intact now.
            return False
        return True
