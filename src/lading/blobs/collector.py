"""Garbage collection of blocks: lists volumes and collections, plans, and executes the plan.

`core.data.garbage` makes the plan. The order makes it safe. Volumes are listed before
collections, so a block that was put later is not in the plan. A block that seems lost is checked
once more before it is reported. Collections that changed since the start are read again just before
blocks are discarded. A volume compares the time of the last put and keeps a block that was put
again. A block that was discarded by mistake is still in the bin: reads find it there, and the next
run restores it.

At the end the number of copies and the storage classes that each collection has are recorded where
they differ from the recorded ones. A collection that changed meanwhile is left to the next run: its
blocks may be younger than the listing.

A volume or a record that cannot be read ends the run: a block that was not seen is not garbage.

`References` is the seam for the queries of collector and scrubber on collections.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from lading.blobs.volume import Compacting
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.core.data import confirmation, garbage
from lading.core.data.confirmation import CopyCount
from lading.core.data.garbage import (
    GarbageAction,
    GarbagePlan,
    GarbageStep,
    GarbageVolume,
    Replica,
    Sight,
    Terms,
)
from lading.core.data.placement import ReplicaPlace
from lading.core.errors import Conflict, Corrupt, Invalid, LadingError, NotFound, Unavailable
from lading.process.telemetry import event

Progress = Callable[[str, int, int], None]
"""Progress callback: the current step, the amount done, and the total (0: unknown)."""

# Restore first, so that a block that is needed is not deleted, and copy before originals are
# discarded.
_ORDER: Final = (
    GarbageAction.UNTRASH,
    GarbageAction.PULL,
    GarbageAction.TRASH,
    GarbageAction.DELETE,
)
# Seconds before the start of the listing from which changed collections are read again; clocks of
# servers may differ by it.
_MARGIN: Final = 60.0
# Blocks or steps that are worked on together.
_BATCH: Final = 256
# Collections whose counts are recorded in one transaction.
_RECORDED: Final = 200
# Blocks of collections that are counted again after missing copies were made; the other collections
# are counted by the next run.
_COUNTED_AGAIN: Final = 1_000_000
# Lost blocks that are written to the log; the result has all.
_SHOWN: Final = 100
_logger = logging.getLogger("lading.blobs.collector")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A plan, its inputs, and the time when the listing began (Unix seconds)."""

    plan: GarbagePlan
    began: float
    blocks: int
    bytes: int
    named: int
    counts: CopyCounts


@dataclass(slots=True)
class CopyCounts:
    """The collections whose recorded count is not the present one: `final` with their count,
    `unmet` those that lack copies which this run may make. `sight` has what was listed.
    """

    sight: Sight
    most_again: int = _COUNTED_AGAIN
    """Blocks of the unmet collections at most."""
    final: list[tuple[Named, CopyCount]] = field(default_factory=list)
    unmet: list[Named] = field(default_factory=list)
    _blocks: int = 0

    def add(self, named: Named) -> None:
        """Count the copies of a collection."""
        count = self.count(named)
        if count.meets(named.copies, named.classes):
            if count != named.recorded:
                self.final.append((named, count))
        elif self._blocks + len(named.hashes) <= self.most_again:
            self._blocks += len(named.hashes)
            self.unmet.append(named)

    def count(self, named: Named) -> CopyCount:
        """The present count of a collection."""
        sight = self.sight
        listed = (hash for hash in named.hashes if hash in sight.replicas)
        return confirmation.count_copies(
            named.hashes,
            copies=named.copies,
            classes=named.classes,
            volumes_of={
                hash: [
                    replica.volume
                    for replica in sight.replicas[hash]
                    if replica.volume in sight.volumes
                ]
                for hash in listed
            },
            places={uuid: volume.replica_place for uuid, volume in sight.volumes.items()},
        )

    def again(self) -> list[tuple[Named, CopyCount]]:
        """The counts that have to be recorded after the steps of the run."""
        counted = ((named, self.count(named)) for named in self.unmet)
        return [*self.final, *(pair for pair in counted if pair[1] != pair[0].recorded)]


@dataclass(slots=True, kw_only=True)
class CollectorResult:
    """Result of a run: steps and bytes of each kind, steps skipped after a change, failures, and
    the number of collections whose copies and classes were recorded anew.
    """

    done: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    left: int = 0
    failures: list[str] = field(default_factory=list)
    recorded: int = 0


class Collector:
    """A garbage collector. `grace` and `lifetime` in seconds (`core.data.garbage`); `clock`
    returns Unix seconds.
    """

    def __init__(
        self,
        mounts: VolumeSet,
        references: References,
        *,
        grace: float,
        lifetime: float,
        may_trash: bool = True,
        at_once: int = 4,
        clock: Callable[[], float],
    ) -> None:
        self._mounts = mounts
        self._references = references
        self._grace, self._lifetime = grace, lifetime
        self._may_trash = may_trash
        self._at_once = max(1, at_once)
        self._clock = clock

    async def look(self, *, progress: Progress) -> Look:
        """List volumes and collections and make a plan.

        Raises Unavailable when a volume or record cannot be read, Invalid when no collection names
        any block.
        """
        began = self._clock()
        # Two volumes of one device would show each block twice.
        volumes = garbage.distinct_volumes(
            [await self._holder(mount) for mount in self._mounts.all]
        )
        # Volumes before collections: see the module.
        sight, size = Sight(volumes), 0
        for number, uuid in enumerate(volumes):
            progress("volumes", number, len(volumes))
            size += await self._see(self._mounts.find(uuid), sight)
        counts, count = CopyCounts(sight), 0
        async with aclosing(self._references.all()) as found:  # type: ignore[type-var]
            async for named in found:
                count += 1
                progress("collections", count, 0)
                for hash in named.hashes:
                    garbage.add_need(sight.needs, hash, copies=named.copies, classes=named.classes)
                counts.add(named)
        # The wrong database would make every block garbage.
        if sight.replicas and not sight.needs:
            raise Invalid(
                "no collection names any block: is this the right database?"
                " Nothing is discarded until one does"
            )
        terms = Terms(
            now_ns=int(began * 1e9),
            grace_ns=int(self._grace * 1e9),
            lifetime_ns=int(self._lifetime * 1e9),
            may_trash=self._may_trash,
        )
        # In a thread: it examines every block.
        plan = await asyncio.to_thread(garbage.make_plan, sight, terms)
        if plan.lost or plan.lacking:
            plan = await self._look_again(plan, sight, terms, progress)
        return Look(
            plan=plan,
            began=began,
            blocks=len(sight.replicas),
            bytes=size,
            named=len(sight.needs),
            counts=counts,
        )

    async def _look_again(
        self, plan: GarbagePlan, sight: Sight, terms: Terms, progress: Progress
    ) -> GarbagePlan:
        """The plan without false alarms: a block that seemed lost may have been put after its
        volume was listed.
        """
        doubtful = sorted({*plan.lost, *plan.lacking})
        for start in range(0, len(doubtful), _BATCH):
            progress("missing blocks", start, len(doubtful))
            batch = doubtful[start : start + _BATCH]
            found = await asyncio.gather(*(self._replicas(hash, sight.volumes) for hash in batch))
            sight.replicas.update(zip(batch, found, strict=True))
        return garbage.revise_plan(plan, doubtful, sight, terms)

    async def _replicas(self, hash: str, volumes: Iterable[str]) -> list[Replica]:
        replicas = []
        for uuid in volumes:
            mount = self._mounts.find(uuid)
            # Another server may have deleted it since the index was read.
            with suppress(NotFound):
                stored = await self._mounts.attempt(mount, mount.volume.head(hash))
                replicas.append(Replica(uuid, stored.size, stored.mtime_ns))
        return replicas

    async def carry_out(self, look: Look, *, progress: Progress) -> CollectorResult:
        """Execute the steps of a plan that are still valid. Raises Unavailable when collections
        cannot be read.
        """
        # Once more before anything is discarded; see the module.
        named, changed = await self._named_since(look.began - _MARGIN)
        sight = look.counts.sight
        outcome, done, total = CollectorResult(), 0, len(look.plan.steps)
        for kind in _ORDER:
            steps = [step for step in look.plan.steps if step.kind is kind]
            for start in range(0, len(steps), _BATCH):
                batch = steps[start : start + _BATCH]
                await self._do_all(
                    [step for step in batch if not _is_hindered(step, named)], outcome, sight
                )
                outcome.left += sum(_is_hindered(step, named) for step in batch)
                done += len(batch)
                progress(kind, done, total)
        await self._record(look, changed, outcome, progress)
        await self._compact(outcome, progress)
        event(
            _logger,
            "balanced",
            **{kind: outcome.done[kind] for kind in GarbageAction},
            left=outcome.left,
            failed=len(outcome.failures),
            recorded=outcome.recorded,
            lost=len(look.plan.lost),
            lacking=len(look.plan.lacking),
        )
        for hash in look.plan.lost[:_SHOWN]:
            event(_logger, "block lost", block=hash)
        return outcome

    async def _compact(self, outcome: CollectorResult, progress: Progress) -> None:
        """Return the space of discarded blocks, on volumes that keep blocks in common files."""
        for mount in self._mounts.writable:
            if isinstance(mount.volume, Compacting):
                progress("compaction", 0, 0)
                try:
                    await self._mounts.attempt(mount, mount.volume.compact())
                except (Corrupt, Unavailable) as error:
                    outcome.failures.append(f"{mount.uuid} not compacted: {error.message}")

    async def _record(
        self, look: Look, changed: set[str], outcome: CollectorResult, progress: Progress
    ) -> None:
        """Record the counts of the collections that are as they were listed."""
        counts = [pair for pair in look.counts.again() if pair[0].uuid not in changed]
        for start in range(0, len(counts), _RECORDED):
            progress("counts", start, len(counts))
            try:
                outcome.recorded += await self._references.record(
                    counts[start : start + _RECORDED], at=look.began
                )
            # The copies are there, and the next run records them.
            except LadingError as error:
                outcome.failures.append(f"copies of collections not recorded: {error.message}")
                return

    async def _holder(self, mount: VolumeMount) -> GarbageVolume:
        free = (await self._mounts.space(mount)).free
        target = ReplicaPlace(
            uuid=mount.uuid,
            device=mount.device,
            copies=mount.copies,
            classes=mount.classes,
            free=free,
        )
        return GarbageVolume(replica_place=target, is_read_only=mount.is_read_only)

    async def _see(self, mount: VolumeMount, sight: Sight) -> int:
        size = 0
        async with aclosing(mount.volume.index()) as stored_blocks:  # type: ignore[type-var]
            async for stored in stored_blocks:
                size += stored.size
                replica = Replica(mount.uuid, stored.size, stored.mtime_ns)
                sight.replicas.setdefault(stored.hash, []).append(replica)
        async with aclosing(mount.volume.discarded()) as thrown:  # type: ignore[type-var]
            async for block in thrown:
                replica = Replica(mount.uuid, block.size, block.discarded_ns)
                sight.thrown.setdefault(block.hash, []).append(replica)
        return size

    async def _named_since(self, moment: float) -> tuple[set[str], set[str]]:
        """The blocks of the collections that have changed since a time, and their uuids."""
        named, uuids = set[str](), set[str]()
        async with aclosing(self._references.changed(moment)) as changed:  # type: ignore[type-var]
            async for collection in changed:
                named.update(collection.hashes)
                uuids.add(collection.uuid)
        return named, uuids

    async def _do_all(
        self, steps: Iterable[GarbageStep], outcome: CollectorResult, sight: Sight
    ) -> None:
        gate = asyncio.Semaphore(self._at_once)

        async def one(step: GarbageStep) -> None:
            async with gate:
                try:
                    await self._do(step)
                except (Conflict, NotFound):
                    # The block was put again, or another run took the same step.
                    outcome.left += 1
                except (Corrupt, Unavailable) as error:
                    outcome.failures.append(
                        f"{step.kind} {step.hash} on {step.volume}: {error.message}"
                    )
                else:
                    outcome.done[step.kind] += 1
                    outcome.bytes[step.kind] += step.size
                    _note(step, sight)

        await asyncio.gather(*(one(step) for step in steps))

    async def _do(self, step: GarbageStep) -> None:
        mount = self._mounts.find(step.volume)
        volume = mount.volume
        match step.kind:
            case GarbageAction.UNTRASH:
                await self._mounts.attempt(mount, volume.restore(step.hash))
            case GarbageAction.PULL:
                data = await self._mounts.get(step.hash)
                await self._mounts.attempt(mount, volume.put(step.hash, data))
            case GarbageAction.TRASH:
                await self._mounts.attempt(mount, volume.discard(step.hash, step.moment_ns))
            case GarbageAction.DELETE:
                await self._mounts.attempt(mount, volume.delete(step.hash, step.moment_ns))
        event(_logger, step.kind, block=step.hash, volume=step.volume, reason=step.reason)


def _note(step: GarbageStep, sight: Sight) -> None:
    """Note the copy that a step has made or taken away."""
    replicas = sight.replicas.setdefault(step.hash, [])
    if step.kind in (GarbageAction.UNTRASH, GarbageAction.PULL):
        replicas.append(Replica(step.volume, step.size, step.moment_ns))
    elif step.kind is GarbageAction.TRASH:
        replicas[:] = [replica for replica in replicas if replica.volume != step.volume]


# Only discarding can do harm; restoring and copying a named block is right.
def _is_hindered(step: GarbageStep, named: set[str]) -> bool:
    return step.kind in (GarbageAction.TRASH, GarbageAction.DELETE) and step.hash in named


@dataclass(frozen=True, slots=True)
class Named:
    """The blocks of one collection, with the desired copies in each storage class.

    `content` is its portable data hash, `recorded` what its record says about its copies.
    """

    hashes: Sequence[str]
    copies: int
    classes: Sequence[str]
    uuid: str = ""
    content: str = ""
    recorded: CopyCount = CopyCount()


@dataclass(frozen=True, slots=True)
class Hit:
    """A collection that names a block, and its files with this block."""

    uuid: str
    name: str
    files: Sequence[str]


class References(Protocol):
    """The source of the answers: the database or its API."""

    def all(self) -> AsyncIterator[Named]:
        """All collections, including the trash and past versions. Raises Unavailable."""

    def changed(self, since: float) -> AsyncIterator[Named]:
        """Collections created or changed since a time (Unix seconds). Raises Unavailable."""

    async def naming(self, hash: str) -> list[Hit]:
        """A few of the collections that refer to a block. Raises Unavailable."""

    async def record(self, counts: Sequence[tuple[Named, CopyCount]], *, at: float) -> int:
        """Record the copies of collections as counted at a time (Unix seconds), unless their
        content has changed; the number of changed records. Raises LadingError.
        """
