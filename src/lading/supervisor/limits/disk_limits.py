"""Disk space of a container: ends it in time.

- `DiskWatch` decides when a container has to end, by the rules of `core.containers.disk_space`.
  Free space is checked more often the less there is. The container's files are measured only when
  so much space has gone that it may be near its limit, or when the disk is nearly full. Supervisors
  exchange the measured use (`Neighbours`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from lading.client.caches.disk_space import read_disk
from lading.core.containers import disk_space
from lading.core.containers.disk_space import Amount, DiskAllowance, DiskWriter, FileSystemSpace
from lading.core.resources import UNLIMITED
from lading.process.cancellation import Stopped
from lading.supervisor.limits.container_mounts import (
    ContainerMount,
    added_places,
    layers_of,
    read_table,
    roots_of,
    tables_of,
)
from lading.supervisor.limits.disk_usage import MAX_DEPTH, Neighbours, measure
from lading.supervisor.limits.open_files import MAX_OPEN, held_open

PLACES = ("mounts", "bundle", "log")
"""Subdirectories of a run directory that grow by actions of a container."""
# Seconds after the start of the command; a shorter container costs nothing.
_FIRST = 0.2
# Seconds of a measurement; an unfinished one is dropped and the former one counts.
_LONGEST_WALK = 60.0
# Attempts to find the layer that a daemon has made, through the container's processes, which may
# not have begun yet.
_LAYER_TRIES = 100
# Seconds for all containers of a full disk to report their use, before one of them is ended by the
# known figures.
_HEARING = 5.0
# Seconds between two measurements on a disk that is nearly full.
_CALM = 1.0
_ANY = Amount(UNLIMITED, UNLIMITED)


def _nothing() -> None:
    """Nothing else is measured."""


@dataclass(slots=True, kw_only=True)
class DiskWatch:
    """The watch over one container. `configured` is the configured reserve, `base` the use before
    the container began.
    """

    run: Path
    allowed: DiskAllowance
    configured: Amount
    processes: Callable[[], Iterable[int]]
    """The container's processes."""
    on_walk: Callable[[], object] = _nothing
    """Called in the thread of each measurement of the container."""
    has_daemon: bool = False
    """The container's own files are kept by a daemon."""
    base: Amount = Amount()
    first: float = _FIRST
    hearing: float = _HEARING
    clock: Callable[[], float] = time.monotonic
    _disks: dict[int, Path] = field(default_factory=dict)
    _uses: dict[int, Amount] = field(default_factory=dict)
    # Use of each disk by the container when the disk last had space enough.
    _calm: dict[int, Amount] = field(default_factory=dict)
    # Free space at the last measurement.
    _free: dict[int, Amount] = field(default_factory=dict)
    _walked: float = 0.0
    _took: float = 0.0
    _measured: bool = False
    _has_layers: bool = False
    _urgent_since: float = math.inf
    # The last judgement waits for reports of others.
    _is_put_off: bool = False

    async def run_until_full(self) -> str:
        """Watch; return the reason for which the container has to end. Raises OSError when the disk
        cannot be examined.
        """
        neighbours = Neighbours(self.run, time.time)
        self._add(self.run)
        self._walked = self.clock()
        self._note_free()
        await asyncio.sleep(self.first)
        # Written now, because a full disk would have no space for it.
        neighbours.tell({})
        tries = _LAYER_TRIES if self.has_daemon else 0
        while True:
            if tries:
                tries = 0 if await asyncio.to_thread(self._find_layers) else tries - 1
            disks = self._look()
            urgent = self._note_urgency(disks)
            is_due = self._is_due(disks, urgent=urgent)
            why = await self._measure(neighbours) if is_due else ""
            # Judged by the last measurement once the others have reported theirs: until the next
            # one, the container would go on.
            if not why and urgent and (is_due or self._is_put_off):
                why = self._judge(neighbours)
            if why:
                return why
            if is_due:
                disks = self._look()
            await asyncio.sleep(self._pause(disks))

    def _note_urgency(self, disks: dict[int, FileSystemSpace]) -> bool:
        """Whether a disk is nearly full now; notes since when one has been without a break."""
        urgent = any(disk_space.is_urgent(space, self._reserve(space)) for space in disks.values())
        self._urgent_since = min(self._urgent_since, self.clock()) if urgent else math.inf
        return urgent

    def _is_due(self, disks: dict[int, FileSystemSpace], *, urgent: bool) -> bool:
        since = self.clock() - self._walked
        if self._has_layers and not self._measured:
            # Data written before its layer was known does not appear as lost free space.
            return True
        # At most a third of the time is spent on measurements.
        if urgent and (not self._measured or since >= max(_CALM, self._took * 2)):
            return True
        lost = [self._free.get(device, space.free) - space.free for device, space in disks.items()]
        grown = Amount(max(loss.size for loss in lost), max(loss.files for loss in lost))
        return disk_space.is_walk_due(grown, self._left(), since=since, took=self._took)

    async def _measure(self, neighbours: Neighbours) -> str:
        """Measure the container; the reason for which its own use ends it, or ""."""
        began = self._walked = self.clock()
        self._note_free()
        try:
            uses = await asyncio.to_thread(self._walk, began)
        except OSError as error:
            # Counted as an excess: a container must not escape measurement by depth or by number.
            if error.errno == errno.ELOOP:
                return (
                    f"the container has made directories more than {MAX_DEPTH} deep,"
                    " so that its use of the disk cannot be measured; make fewer levels"
                )
            if error.errno == errno.EMFILE and error.filename is None:
                return (
                    f"the container has more than {MAX_OPEN} files open,"
                    " so that its use of the disk cannot be measured; open fewer"
                )
            raise
        self._took, self._measured, self._uses = self.clock() - began, True, uses
        for device, disk in self._look().items():
            if not disk_space.is_short(disk, self._reserve(disk)):
                self._calm[device] = uses.get(device, Amount())
        neighbours.tell({device: self._writer(device) for device in uses})
        return disk_space.excess(self._used(), self.allowed)

    def _walk(self, began: float) -> dict[int, Amount]:
        pids = list(self.processes())
        tables = list(tables_of(pids))
        layers = layers_of(tables) if self.has_daemon else ()
        further = (*layers, *self._added(tables)) if self.has_daemon else ()
        most = Amount(
            self.allowed.size + self.base.size if self.allowed.size else 0,
            self.allowed.files + self.base.files if self.allowed.files else 0,
        )
        try:
            places = [*(self.run / name for name in PLACES), *further]
            uses = measure(places, most=most, stop=lambda: self.clock() - began > _LONGEST_WALK)
        # The former measurement counts.
        except Stopped:
            uses = dict(self._uses)
        self.on_walk()
        # A file of an overlay has the overlay's device, and takes space of its upper directory's.
        place = layers[0] if layers else self.run / "bundle"
        overlays = dict.fromkeys(roots_of(tables), self._device(place))
        for device, amount in held_open(pids).items():
            disk = overlays.get(device, device)
            if disk in self._disks:
                uses[disk] = uses.get(disk, Amount()) + amount
        return uses

    def _added(self, tables: list[list[ContainerMount]]) -> tuple[Path, ...]:
        return added_places(tables, read_table(), run=self.run) if tables else ()

    def _device(self, layer: Path) -> int:
        """The device of the disk with the changes of a container; 0 where they are in memory."""
        try:
            return 0 if (layer / "memory").is_mount() else layer.stat().st_dev
        except OSError:
            # The container is being removed.
            return 0

    def _find_layers(self) -> bool:
        """Watch also the disks of a daemon's layers of the container; False while none is known."""
        tables = list(tables_of(self.processes()))
        layers = layers_of(tables)
        for path in (*layers, *self._added(tables)):
            # Gone with its container.
            with contextlib.suppress(FileNotFoundError):
                self._add(path)
        self._has_layers = bool(layers)
        if layers:
            self._note_free()
        return self._has_layers

    def _note_free(self) -> None:
        self._free = {device: space.free for device, space in self._look().items()}

    def _judge(self, neighbours: Neighbours) -> str:
        """Reason for which this container has to end, as the largest user of a disk that is nearly
        full, or "".
        """
        is_heard = self.clock() - self._urgent_since >= self.hearing
        self._is_put_off = not is_heard and neighbours.are_unknown()
        if self._is_put_off:
            return ""
        for device, disk in self._look().items():
            others = neighbours.others(device)
            why = disk_space.must_end(disk, self._reserve(disk), self._writer(device), others)
            if why:
                return why
        return ""

    def _pause(self, disks: dict[int, FileSystemSpace]) -> float:
        rooms = [disk_space.room(space, self._reserve(space)).size for space in disks.values()]
        return disk_space.pause(min([*rooms, self._left().size]))

    def _writer(self, device: int) -> DiskWriter:
        taken = self._uses.get(device, Amount())
        return DiskWriter(self.run.name, taken, taken - self._calm.get(device, Amount()))

    def _used(self) -> Amount:
        return sum(self._uses.values(), Amount()) - self.base if self._measured else Amount()

    def _left(self) -> Amount:
        return (
            disk_space.left_of(self._used(), self.allowed)
            if self.allowed != DiskAllowance()
            else _ANY
        )

    def _reserve(self, disk: FileSystemSpace) -> Amount:
        return disk_space.reserve(disk.total, self.configured)

    def _look(self) -> dict[int, FileSystemSpace]:
        return {device: read_disk(path) for device, path in self._disks.items()}

    def _add(self, path: Path) -> None:
        self._disks.setdefault(path.stat().st_dev, path)


def base(run: Path) -> Amount:
    """Use of a run directory before its container begins: copies made for it. Raises OSError."""
    uses = measure([run / name for name in PLACES], most=Amount())
    return sum(uses.values(), Amount())
