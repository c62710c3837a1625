"""Preemptible VMs that the cloud took away, remembered over a restart of the dispatcher.

The rules are those of `core.scheduling.cloud_spot`. The pauses are kept in one small file, in
seconds since 1970, since the clock of the loop begins anew with the process. The file is replaced
as a whole; one that cannot be read counts as empty.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from lading.core.scheduling import cloud_spot
from lading.core.scheduling.cloud_limits import Ban, Limits
from lading.core.scheduling.cloud_spot import Reclaims
from lading.core.scheduling.instance_types import InstanceType


@runtime_checkable
class Zoned(Protocol):
    """A driver that makes VMs in one of several zones."""

    def zones(self) -> tuple[str, ...]:
        """The zones where a VM can be made."""


class _Pause(msgspec.Struct, frozen=True):
    type: str
    zone: str
    until: float
    length: float
    why: str


class SpotLosses:
    """Pauses of types after reclaims. Without a path they are kept in memory alone.

    `clock` is that of the limits, `wall` seconds since 1970.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        zones: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._path = path
        self._clock = clock
        self._wall = wall
        self._zones = zones
        self._reclaims: Reclaims = {}
        if path is not None:
            # The file only saves money: without it, a type is avoided after its next loss.
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                pauses = msgspec.json.decode(path.read_bytes(), type=list[_Pause])
                self._reclaims = {
                    (pause.type, pause.zone): Ban(pause.until, pause.length, pause.why)
                    for pause in pauses
                }

    def note(self, kind: InstanceType, zone: str) -> None:
        """Note that the cloud took a VM away."""
        self._reclaims = cloud_spot.reclaimed(
            self._reclaims, kind.provider_type, zone, now=self._wall()
        )
        self._write()

    def zones_to_avoid(self, kind: InstanceType) -> frozenset[str]:
        """The zones in which no VM of this type should be made now."""
        if not kind.preemptible:
            return frozenset()
        return cloud_spot.avoided_zones(self._reclaims, kind.provider_type, now=self._wall())

    def limit(self, limits: Limits) -> Limits:
        """The limits with the types that are avoided now."""
        if not self._reclaims:
            return limits
        now, wall = self._clock(), self._wall()
        found = cloud_spot.avoided_types(self._reclaims, self._zones(), now=wall)
        # Wall time may have been set back since: no pause is longer than it was made.
        avoided = {
            name: Ban(now + min(ban.until - wall, ban.length), ban.length, ban.why)
            for name, ban in found.items()
        }
        return replace(limits, avoided=avoided)

    def _write(self) -> None:
        if self._path is None:
            return
        rows = [
            _Pause(type_, zone, ban.until, ban.length, ban.why)
            for (type_, zone), ban in self._reclaims.items()
        ]
        part = self._path.with_suffix(".part")
        # A full disk must not stop the dispatcher; the pauses are in memory all the same.
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_bytes(msgspec.json.encode(rows))
            part.replace(self._path)


def losses_of(driver: object, path: Path, *, clock: Callable[[], float]) -> SpotLosses:
    """The losses of the VMs of a driver, kept in a file."""
    zones = driver.zones if isinstance(driver, Zoned) else tuple[str, ...]
    return SpotLosses(path, clock=clock, wall=time.time, zones=zones)
