"""All volumes of this server as one: writes, reads and repairs of blocks.

A write goes to the volumes that `core.data.garbage` chooses for the desired copies. A volume
that fails is skipped and comes last for a while. A read tries the volumes in turn until one returns
the intact block. A block in the bin is restored when it is requested with a valid signature, since
some collection names it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from lading.blobs.block_files import FileDraft
from lading.blobs.volume import Buffer, Drafting, Lending, Loan, Space, Stored, Volume
from lading.core.data import placement
from lading.core.data.placement import DesiredReplication, ReplicaPlace, Tally
from lading.core.errors import Conflict, Corrupt, Full, LadingError, NotFound, Unavailable
from lading.process.telemetry import event

_Answer = TypeVar("_Answer")
# Seconds for which the free space of a volume is not requested again.
_SPACE_LIFE: Final = 5.0
# Seconds for which a volume is tried last after a failure.
_AVOIDED: Final = 30.0
# Blocks of one content whose storage classes are looked up, and look-ups at a time.
_LOOKED_UP: Final = 256
_AT_ONCE: Final = 16
# MD5 of no bytes: the block of empty files.
_EMPTY: Final = "d41d8cd98f00b204e9800998ecf8427e"
_logger = logging.getLogger("lading.blobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMount:
    """A volume and its configuration; `copies` as in core.placement."""

    uuid: str
    volume: Volume
    driver: str = "Directory"
    copies: int | None = 1
    classes: frozenset[str] = frozenset({"default"})
    is_read_only: bool = False

    @property
    def device(self) -> str:
        """The device of the volume."""
        return self.volume.device


@dataclass(slots=True, kw_only=True)
class Health:
    """Health of a volume since the start: number of faults, last fault and its time (Unix
    seconds).
    """

    faults: int = 0
    damaged: int = 0
    last_fault: str = ""
    avoided_until: float = 0.0
    space: Space | None = None
    space_until: float = 0.0
    refreshing: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Result of a write: copies in total and in each requested storage class."""

    copies: int
    classes: Mapping[str, int]


class VolumeSet:
    """All volumes; `clock` returns Unix seconds."""

    def __init__(
        self, mounts: Sequence[VolumeMount], *, clock: Callable[[], float] = time.time
    ) -> None:
        self.all = tuple(mounts)
        self._by_uuid = {mount.uuid: mount for mount in mounts}
        self._health = {mount.uuid: Health() for mount in mounts}
        self._clock = clock

    @property
    def writable(self) -> tuple[VolumeMount, ...]:
        """The writable mounts."""
        return tuple(mount for mount in self.all if not mount.is_read_only)

    @property
    def classes(self) -> frozenset[str]:
        """The storage classes of the writable volumes."""
        return frozenset(name for mount in self.writable for name in mount.classes)

    async def classes_of(self, hashes: Iterable[str], desired: Sequence[str]) -> list[str]:
        """The desired storage classes that have every block.

        No volume is asked about a class that all volumes serve, nor about more than `_LOOKED_UP`
        blocks: these are counted by the balancer, and no class is named for them.
        """
        everywhere = [
            name
            for name in desired
            if self.all and all(name in mount.classes for mount in self.all)
        ]
        others = [name for name in desired if name not in everywhere and name in self.classes]
        looked_up = _to_look_up(hashes) if others else None
        if looked_up is None:
            return everywhere
        mounts = [mount for mount in self.all if not mount.classes.isdisjoint(others)]
        held = await self._classes_held(mounts, looked_up)
        common = {name for name in others if all(name in classes for classes in held.values())}
        return [name for name in desired if name in common or name in everywhere]

    async def _classes_held(
        self, mounts: Iterable[VolumeMount], hashes: Collection[str]
    ) -> dict[str, set[str]]:
        """The storage classes of the mounts that have a block, by its hash."""
        gate = asyncio.Semaphore(_AT_ONCE)
        classes: dict[str, set[str]] = {hash: set() for hash in hashes}

        async def look(mount: VolumeMount, hash: str) -> None:
            async with gate:
                with suppress(NotFound, Corrupt, Unavailable):
                    await self.attempt(mount, mount.volume.head(hash))
                    classes[hash] |= mount.classes

        await asyncio.gather(*(look(mount, hash) for mount in mounts for hash in hashes))
        return classes

    def find(self, uuid: str) -> VolumeMount:
        """The mount with a uuid. Raises NotFound."""
        try:
            return self._by_uuid[uuid]
        except KeyError:
            raise NotFound(f"{uuid}: no such volume here") from None

    def health(self, mount: VolumeMount) -> Health:
        """Health of a volume."""
        return self._health[mount.uuid]

    async def aclose(self) -> None:
        """Close all volumes."""
        for mount in self.all:
            await mount.volume.close()

    async def places(self, hash: str, *, look: bool = True) -> list[ReplicaPlace]:
        """The writable volumes in the order of preference for a block; `look` also asks which ones
        have it.
        """
        places = await asyncio.gather(
            *(self._place(mount, hash, look=look) for mount in self.writable)
        )
        return placement.order(places, hash)

    async def begin(
        self, places: Sequence[ReplicaPlace], desired: DesiredReplication, size: int
    ) -> tuple[str, FileDraft] | None:
        """A draft on the first volume for a new block of this size, or None if no draft is
        possible.
        """
        wave = placement.next_wave(places, Tally(), desired)
        # A volume that has the block needs no draft: `put` updates the time.
        if not wave or wave[0].holds:
            return None
        mount = self.find(wave[0].uuid)
        if not isinstance(mount.volume, Drafting):
            return None
        try:
            draft = await self.attempt(mount, mount.volume.begin(size))
        # The block is then written as a whole by `put`.
        except Unavailable:
            return None
        return None if draft is None else (mount.uuid, draft)

    async def put(
        self,
        hash: str,
        data: Buffer,
        *,
        desired: DesiredReplication,
        places: Sequence[ReplicaPlace],
        draft: tuple[str, FileDraft] | None = None,
    ) -> Receipt:
        """Store a block with the requested copies, as far as possible.

        Raises Full or Unavailable when no copy was stored.
        """
        left, tally, faults = list(places), Tally(), list[LadingError]()
        # Waves: at once as many volumes as copies are missing; other volumes follow failed ones.
        while wave := placement.next_wave(left, tally, desired):
            done = await asyncio.gather(*(self._keep(target, hash, data, draft) for target in wave))
            for target, fault in zip(wave, done, strict=True):
                if fault is None:
                    tally = tally.with_copy(target, desired)
                else:
                    faults.append(fault)
            left = [target for target in left if target not in wave]
        # After a commit this has no effect.
        if draft is not None:
            await draft[1].discard()
        if not tally.copies:
            raise _worst(faults, desired)
        return Receipt(
            copies=tally.copies,
            classes={name: tally.classes.get(name, 0) for name in desired.classes},
        )

    async def get(self, hash: str, into: memoryview | None = None) -> Buffer:
        """The verified block; see BlockVolume.get. A damaged copy is skipped if another volume has
        an intact one.
        """
        try:
            return await self._first(hash, lambda volume: volume.get(hash, into))
        # A block in the bin may be requested with a valid signature; see the module.
        except NotFound:
            if not await self.recover(hash):
                raise
            return await self._first(hash, lambda volume: volume.get(hash, into))

    async def lend(self, hash: str) -> Loan:
        """The open file of a block, not verified. Raises NotFound without a file to pass, Corrupt,
        Unavailable.
        """
        fault: LadingError = NotFound(f"{hash}: no volume of this machine has such a file")
        for mount in self.all:
            if isinstance(mount.volume, Lending):
                try:
                    return await self.attempt(mount, mount.volume.lend(hash))
                except (NotFound, Corrupt, Unavailable) as error:
                    fault = error
        raise fault

    async def head(self, hash: str) -> Stored:
        """Size and time of the last put of a block. Raises NotFound, Unavailable."""
        try:
            return await self._first(hash, lambda volume: volume.head(hash))
        except NotFound:
            if not await self.recover(hash):
                raise
            return await self._first(hash, lambda volume: volume.head(hash))

    async def recover(self, hash: str) -> list[str]:
        """Restore a block from every bin that has it; return these volumes."""
        back = []
        for mount in self.writable:
            try:
                await self.attempt(mount, mount.volume.restore(hash))
            except (NotFound, Unavailable):
                continue
            event(_logger, "block brought back", block=hash, volume=mount.uuid)
            back.append(mount.uuid)
        return back

    async def on_all(self, hash: str, work: Callable[[Volume], Awaitable[None]]) -> list[str]:
        """Apply an action to a block on every writable volume that has it; return these volumes.

        Raises NotFound when no volume has the block, Conflict or Unavailable when the action failed
        on all.
        """
        done: list[str] = []
        fault: LadingError = NotFound(f"{hash}: no such block")
        for mount in self.writable:
            try:
                await self.attempt(mount, work(mount.volume))
                done.append(mount.uuid)
            except NotFound:
                continue
            except (Conflict, Unavailable) as error:
                fault = error
        if not done:
            raise fault
        return done

    async def space(self, mount: VolumeMount) -> Space:
        """Total and free space of a volume, a few seconds old. Raises Unavailable."""
        health = self._health[mount.uuid]
        # Under the lock: concurrent requests share one call.
        async with health.refreshing:
            if health.space is None or self._clock() >= health.space_until:
                health.space = await self.attempt(mount, mount.volume.space())
                health.space_until = self._clock() + _SPACE_LIFE
            return health.space

    async def check(self) -> None:
        """Ask all writable volumes for the empty block; all volumes where none is writable. Raises
        Unavailable, Corrupt where no volume answers.
        """

        async def ask(mount: VolumeMount) -> LadingError | None:
            try:
                # A directory that is not mounted has no block and no space, a bucket always room.
                await mount.volume.space()
                await mount.volume.head(_EMPTY)
            except NotFound:
                # It answers.
                return None
            except LadingError as error:
                return error
            return None

        outcomes = await asyncio.gather(*(ask(mount) for mount in self.writable or self.all))
        faults = [outcome for outcome in outcomes if outcome is not None]
        if faults and len(faults) == len(outcomes):
            raise faults[0]

    async def attempt(self, mount: VolumeMount, work: Awaitable[_Answer]) -> _Answer:
        """Await an operation of a volume, and note its failure."""
        try:
            return await work
        except (Corrupt, Unavailable) as error:
            health = self._health[mount.uuid]
            health.last_fault = error.message
            if isinstance(error, Corrupt):
                health.damaged += 1
            # A full volume works for reads and is not avoided.
            elif not isinstance(error, Full):
                health.faults += 1
                health.avoided_until = self._clock() + _AVOIDED
            event(_logger, "volume failed", volume=mount.uuid, fault=error)
            raise

    async def _place(self, mount: VolumeMount, hash: str, *, look: bool) -> ReplicaPlace:
        free, holds = 0, False
        fails = self._clock() < self._health[mount.uuid].avoided_until
        try:
            free = (await self.space(mount)).free
            if look:
                await self.attempt(mount, mount.volume.head(hash))
                holds = True
        # The volume does not have the block; a copy can be written.
        except NotFound:
            pass
        except (Corrupt, Unavailable):
            fails = True
        return ReplicaPlace(
            uuid=mount.uuid,
            device=mount.device,
            copies=mount.copies,
            classes=mount.classes,
            free=free,
            holds=holds,
            fails=fails,
        )

    async def _keep(
        self, target: ReplicaPlace, hash: str, data: Buffer, draft: tuple[str, FileDraft] | None
    ) -> LadingError | None:
        mount = self.find(target.uuid)
        try:
            if draft is not None and draft[0] == target.uuid:
                await self.attempt(mount, draft[1].commit(hash))
            else:
                await self.attempt(mount, mount.volume.put(hash, data))
        except Unavailable as error:
            return error
        return None

    async def _first(self, hash: str, ask: Callable[[Volume], Awaitable[_Answer]]) -> _Answer:
        fault: LadingError = NotFound(f"{hash}: no such block")
        for mount in self.all:
            try:
                return await self.attempt(mount, ask(mount.volume))
            except NotFound as error:
                # The text of the volume is better than the general one; a worse error stays.
                fault = error if isinstance(fault, NotFound) else fault
            except (Corrupt, Unavailable) as error:
                # Damage of one volume is reported before the unavailability of another.
                fault = error if not isinstance(fault, Corrupt) else fault
        raise fault


def _to_look_up(hashes: Iterable[str]) -> set[str] | None:
    """The hashes but the hash of the empty block; None if they are too many to look up."""
    looked_up = set[str]()
    for hash in hashes:
        if hash != _EMPTY:
            looked_up.add(hash)
        if len(looked_up) > _LOOKED_UP:
            return None
    return looked_up


def _worst(faults: Sequence[LadingError], desired: DesiredReplication) -> LadingError:
    """The error for a write without any copy: a retryable one if a retry may help."""
    passing = [fault for fault in faults if not isinstance(fault, Full)]
    if passing:
        return passing[0]
    if faults:
        return faults[0]
    return Full(
        f"no volume can be written for the storage classes {', '.join(desired.classes)};"
        " see 'lading admin volumes'"
    )
