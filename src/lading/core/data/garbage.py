"""Garbage collection: replicas of blocks that are trashed, restored, copied or deleted.

Garbage collection decides which replicas are trashed, restored, copied or deleted. Inputs: the
replicas on every volume with the times of their last puts, the trash of each volume, and for every
block that any collection names (including trashed and old versions) the required copies by class.

- A block that a collection names is copied until it has the required copies, from the trash if it
  is there; surplus copies go into the trash. The last copy never does.
- An unnamed block goes into the trash once its last put is longer ago than `grace`, the life of a
  signature: until then a client may hold a signed locator, and save a collection with it.
- A block in the trash for `lifetime`, and at least for `grace`, is deleted, unless it is needed:
  then it is restored. A signature that existed when it was trashed has expired by then, so no
  deleted block can be named.
- A class without volumes cannot be satisfied: blocks that need it stay on every volume.

Every step has a reason. Volumes on one device count as one volume.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lading.core.data.placement import ReplicaPlace, order

DAY_NS = 86_400 * 10**9
# Copies of a volume that stands for any number.
_UNLIMITED = 1 << 30
Need = Mapping[str, int]
"""Required copies of a block by storage class."""


class GarbageAction(StrEnum):
    """Action on a replica."""

    UNTRASH = "untrash"
    PULL = "pull"
    TRASH = "trash"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Replica:
    """A block on a volume; `moment_ns` (Unix) is the time of its last put, or of its trashing."""

    volume: str
    size: int
    moment_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageVolume:
    """A volume: its place, and whether it is read-only."""

    replica_place: ReplicaPlace
    is_read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The present time and the two intervals, in nanoseconds; without `may_trash` nothing is
    trashed or deleted.
    """

    now_ns: int
    grace_ns: int
    lifetime_ns: int
    may_trash: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageStep:
    """One action on one volume; `moment_ns` is the replica's, which must be unchanged when the
    action is carried out.
    """

    kind: GarbageAction
    hash: str
    size: int
    volume: str
    moment_ns: int = 0
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbagePlan:
    """All steps; needed blocks without any replica; blocks whose missing copies cannot be
    made now.
    """

    steps: tuple[GarbageStep, ...]
    lost: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


@dataclass(slots=True)
class Sight:
    """Inputs: replicas and trash by hash, needs by hash, volumes by uuid."""

    volumes: Mapping[str, GarbageVolume]
    replicas: dict[str, list[Replica]] = field(default_factory=dict)
    thrown: dict[str, list[Replica]] = field(default_factory=dict)
    needs: dict[str, dict[str, int]] = field(default_factory=dict)


def distinct_volumes(volumes: Sequence[GarbageVolume]) -> dict[str, GarbageVolume]:
    """The volumes by uuid, one for each device; a writable one is preferred to a read-only one."""
    by_device: dict[str, GarbageVolume] = {}
    # Two volumes on one device hold the same file: counted twice, the only copy could be removed.
    for volume in sorted(
        volumes, key=lambda volume: (volume.is_read_only, volume.replica_place.uuid)
    ):
        by_device.setdefault(volume.replica_place.device or volume.replica_place.uuid, volume)
    return {volume.replica_place.uuid: volume for volume in by_device.values()}


def add_need(
    needs: dict[str, dict[str, int]], hash: str, *, copies: int, classes: Sequence[str]
) -> None:
    """Add the need of one more collection; the maximum counts."""
    need = needs.setdefault(hash, {})
    for name in classes:
        need[name] = max(need.get(name, 0), copies)


def make_plan(sight: Sight, terms: Terms) -> GarbagePlan:
    """Plan for everything in `sight`."""
    steps: list[GarbageStep] = []
    lost: list[str] = []
    lacking: list[str] = []
    # Sorted, so that equal inputs give equal plans.
    for hash in sorted(sight.replicas.keys() | sight.thrown.keys() | sight.needs.keys()):
        block_plan = decide(
            hash,
            sight.needs.get(hash),
            sight.replicas.get(hash, ()),
            sight.thrown.get(hash, ()),
            sight.volumes,
            terms,
        )
        steps += block_plan.steps
        lost += block_plan.lost
        lacking += block_plan.lacking
    return GarbagePlan(steps=tuple(steps), lost=tuple(lost), lacking=tuple(lacking))


def revise_plan(
    plan: GarbagePlan, hashes: Sequence[str], sight: Sight, terms: Terms
) -> GarbagePlan:
    """The plan with these blocks decided again, after another look at their replicas."""
    again = set(hashes)
    block_plans = [
        decide(
            hash,
            sight.needs.get(hash),
            sight.replicas.get(hash, ()),
            sight.thrown.get(hash, ()),
            sight.volumes,
            terms,
        )
        for hash in hashes
    ]
    return GarbagePlan(
        steps=(
            *(step for step in plan.steps if step.hash not in again),
            *(step for block_plan in block_plans for step in block_plan.steps),
        ),
        lost=tuple(hash for block_plan in block_plans for hash in block_plan.lost),
        lacking=tuple(hash for block_plan in block_plans for hash in block_plan.lacking),
    )


def decide(
    hash: str,
    need: Need | None,
    replicas: Sequence[Replica],
    thrown: Sequence[Replica],
    volumes: Mapping[str, GarbageVolume],
    terms: Terms,
) -> GarbagePlan:
    """Plan for one block; `need` is None when no collection names it."""
    replicas = [replica for replica in replicas if replica.volume in volumes]
    thrown = [
        # A read-only volume's trash cannot be emptied or restored.
        replica
        for replica in thrown
        if replica.volume in volumes and not volumes[replica.volume].is_read_only
    ]
    if need is None:
        return GarbagePlan(
            steps=(
                *_throw_unnamed(hash, replicas, volumes, terms),
                *_empty(hash, thrown, terms, "no collection names it"),
            )
        )
    # Nothing can be done about a lost block but to name it.
    if not replicas and not thrown:
        return GarbagePlan(steps=(), lost=(hash,))
    block = _Block(hash, need, volumes)
    # Mending first: surplus is removed in a later run, when all copies are known to exist.
    mending, lacks = block.mend(replicas, thrown)
    if mending or lacks:
        return GarbagePlan(steps=tuple(mending), lacking=(hash,) if lacks else ())
    surplus = block.throw_surplus(replicas, terms)
    return GarbagePlan(steps=(*surplus, *_empty(hash, thrown, terms, "there are copies enough")))


class _Block:
    """A needed block."""

    def __init__(self, hash: str, need: Need, volumes: Mapping[str, GarbageVolume]) -> None:
        served = {name for volume in volumes.values() for name in volume.replica_place.classes}
        self._hash = hash
        self._volumes = volumes
        # A class without volumes is left out here, and fixes the block where it is.
        self._need = {name: count for name, count in need.items() if name in served}
        self._is_fixed = len(self._need) < len(need)

    def mend(
        self, replicas: Sequence[Replica], thrown: Sequence[Replica]
    ) -> tuple[list[GarbageStep], bool]:
        """Steps towards the required copies; and whether some cannot be had now."""
        holders = {replica.volume for replica in replicas}
        steps = list(self._restore(thrown, holders))
        # A block that is only in the trash is restored first and copied in the next run.
        if replicas:
            steps += self._copy(max(replica.size for replica in (*replicas, *thrown)), holders)
        return steps, bool(self._lacks(holders))

    def _restore(self, thrown: Sequence[Replica], holders: set[str]) -> Iterator[GarbageStep]:
        """Restore copies that help from the trash, and add their volumes to `holders`."""
        for replica in thrown:
            # The first copy is restored wherever it is: one that exists is better than one in the
            # trash.
            if not holders or (
                replica.volume not in holders and self._helps(replica.volume, holders)
            ):
                holders.add(replica.volume)
                yield self._step(
                    GarbageAction.UNTRASH, replica.volume, replica.size, "a collection names it"
                )

    def _copy(self, size: int, holders: set[str]) -> Iterator[GarbageStep]:
        """Copy the block to volumes that lack it, and add them to `holders`."""
        writable = (
            volume.replica_place for volume in self._volumes.values() if not volume.is_read_only
        )
        # The volumes that a put would choose first get the copies.
        for target in order(writable, self._hash):
            has_room = target.uuid not in holders and target.free >= size
            if has_room and self._helps(target.uuid, holders):
                lacks = ", ".join(self._lacks(holders))
                holders.add(target.uuid)
                yield self._step(
                    GarbageAction.PULL, target.uuid, size, f"too few copies in {lacks}"
                )

    def throw_surplus(self, replicas: Sequence[Replica], terms: Terms) -> Iterator[GarbageStep]:
        """Surplus copies, the least preferred first."""
        if self._is_fixed or not terms.may_trash:
            return
        holders = {replica.volume: replica for replica in replicas}
        ranking = [
            target.uuid
            for target in order((self._volumes[uuid].replica_place for uuid in holders), self._hash)
        ]
        # The reverse of the order of puts, volumes of unneeded classes before all others.
        ranking.reverse()
        for uuid in sorted(ranking, key=self._is_of_use):
            remaining = holders.keys() - {uuid}
            replica = holders[uuid]
            # The rest without this one must still satisfy every class.
            if (
                remaining
                and not self._volumes[uuid].is_read_only
                and _is_old(replica, terms)
                and not self._lacks(remaining)
            ):
                del holders[uuid]
                yield self._step(
                    GarbageAction.TRASH,
                    uuid,
                    replica.size,
                    "there are copies enough",
                    replica.moment_ns,
                )

    def _is_of_use(self, uuid: str) -> bool:
        return any(name in self._need for name in self._volumes[uuid].replica_place.classes)

    def _helps(self, uuid: str, holders: set[str]) -> bool:
        classes = self._volumes[uuid].replica_place.classes
        return any(name in classes for name in self._lacks(holders))

    def _lacks(self, holders: set[str]) -> list[str]:
        return [name for name, count in self._need.items() if self._copies(name, holders) < count]

    def _copies(self, name: str, holders: set[str]) -> int:
        places = (self._volumes[uuid].replica_place for uuid in holders)
        return sum(
            _UNLIMITED if target.copies is None else target.copies
            for target in places
            if name in target.classes
        )

    def _step(
        self, kind: GarbageAction, volume: str, size: int, reason: str, moment_ns: int = 0
    ) -> GarbageStep:
        return GarbageStep(
            kind=kind, hash=self._hash, size=size, volume=volume, moment_ns=moment_ns, reason=reason
        )


def _throw_unnamed(
    hash: str, replicas: Sequence[Replica], volumes: Mapping[str, GarbageVolume], terms: Terms
) -> Iterator[GarbageStep]:
    for replica in replicas:
        # A young block may belong to a collection that is being written.
        if terms.may_trash and _is_old(replica, terms) and not volumes[replica.volume].is_read_only:
            days = (terms.now_ns - replica.moment_ns) // DAY_NS
            why = f"no collection names it, last put {days} days ago"
            yield _removal(GarbageAction.TRASH, hash, replica, why)


# Deletes replicas whose time in the trash is over.
def _empty(hash: str, thrown: Sequence[Replica], terms: Terms, why: str) -> Iterator[GarbageStep]:
    lifetime = max(terms.lifetime_ns, terms.grace_ns)
    for replica in thrown:
        if terms.may_trash and replica.moment_ns + lifetime < terms.now_ns:
            days = (terms.now_ns - replica.moment_ns) // DAY_NS
            yield _removal(GarbageAction.DELETE, hash, replica, f"{days} days in the trash, {why}")


def _removal(kind: GarbageAction, hash: str, replica: Replica, why: str) -> GarbageStep:
    return GarbageStep(
        kind=kind,
        hash=hash,
        size=replica.size,
        volume=replica.volume,
        moment_ns=replica.moment_ns,
        reason=why,
    )


# Older than the life of a signature: no valid signature can name it any more.
def _is_old(replica: Replica, terms: Terms) -> bool:
    return replica.moment_ns + terms.grace_ns < terms.now_ns
