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

    place: ReplicaPlace
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
    held: dict[str, list[Replica]] = field(default_factory=dict)
    thrown: dict[str, list[Replica]] = field(default_factory=dict)
    needs: dict[str, dict[str, int]] = field(default_factory=dict)


def distinct_volumes(volumes: Sequence[GarbageVolume]) -> dict[str, GarbageVolume]:
    """The volumes by uuid, one for each device; a writable one is preferred to a read-only one."""
    found: dict[str, GarbageVolume] = {}
    # Two volumes on one device hold the same file: counted twice, the only copy could be removed.
    for one in sorted(volumes, key=lambda one: (one.is_read_only, one.place.uuid)):
        found.setdefault(one.place.device or one.place.uuid, one)
    return {one.place.uuid: one for one in found.values()}


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
    for hash in sorted(sight.held.keys() | sight.thrown.keys() | sight.needs.keys()):
        found = decide(
            hash,
            sight.needs.get(hash),
            sight.held.get(hash, ()),
            sight.thrown.get(hash, ()),
            sight.volumes,
            terms,
        )
        steps += found.steps
        lost += found.lost
        lacking += found.lacking
    return GarbagePlan(steps=tuple(steps), lost=tuple(lost), lacking=tuple(lacking))


def revise_plan(
    plan: GarbagePlan, hashes: Sequence[str], sight: Sight, terms: Terms
) -> GarbagePlan:
    """The plan with these blocks decided again, after another look at their replicas."""
    again = set(hashes)
    found = [
        decide(
            hash,
            sight.needs.get(hash),
            sight.held.get(hash, ()),
            sight.thrown.get(hash, ()),
            sight.volumes,
            terms,
        )
        for hash in hashes
    ]
    return GarbagePlan(
        steps=(
            *(step for step in plan.steps if step.hash not in again),
            *(step for one in found for step in one.steps),
        ),
        lost=tuple(hash for one in found for hash in one.lost),
        lacking=tuple(hash for one in found for hash in one.lacking),
    )


def decide(
    hash: str,
    need: Need | None,
    held: Sequence[Replica],
    thrown: Sequence[Replica],
    volumes: Mapping[str, GarbageVolume],
    terms: Terms,
) -> GarbagePlan:
    """Plan for one block; `need` is None when no collection names it."""
    held = [one for one in held if one.volume in volumes]
    thrown = [
        # A read-only volume's trash cannot be emptied or restored.
        one
        for one in thrown
        if one.volume in volumes and not volumes[one.volume].is_read_only
    ]
    if need is None:
        return GarbagePlan(
            steps=(
                *_throw_unnamed(hash, held, volumes, terms),
                *_empty(hash, thrown, terms, "no collection names it"),
            )
        )
    # Nothing can be done about a lost block but to name it.
    if not held and not thrown:
        return GarbagePlan(steps=(), lost=(hash,))
    block = _Block(hash, need, volumes)
    # Mending first: surplus is removed in a later run, when all copies are known to exist.
    mending, lacks = block.mend(held, thrown)
    if mending or lacks:
        return GarbagePlan(steps=tuple(mending), lacking=(hash,) if lacks else ())
    surplus = block.throw_surplus(held, terms)
    return GarbagePlan(steps=(*surplus, *_empty(hash, thrown, terms, "there are copies enough")))


class _Block:
    """A needed block."""

    def __init__(self, hash: str, need: Need, volumes: Mapping[str, GarbageVolume]) -> None:
        served = {name for one in volumes.values() for name in one.place.classes}
        self._hash = hash
        self._volumes = volumes
        # A class without volumes is left out here, and fixes the block where it is.
        self._need = {name: count for name, count in need.items() if name in served}
        self._is_fixed = len(self._need) < len(need)

    def mend(
        self, held: Sequence[Replica], thrown: Sequence[Replica]
    ) -> tuple[list[GarbageStep], bool]:
        """Steps towards the required copies; and whether some cannot be had now."""
        there = {one.volume for one in held}
        steps = list(self._restore(thrown, there))
        # A block that is only in the trash is restored first and copied in the next run.
        if held:
            steps += self._copy(max(one.size for one in (*held, *thrown)), there)
        return steps, bool(self._lacks(there))

    def _restore(self, thrown: Sequence[Replica], there: set[str]) -> Iterator[GarbageStep]:
        """Restore copies that help from the trash, and add their volumes to `there`."""
        for one in thrown:
            # The first copy is restored wherever it is: one that exists is better than one in the
            # trash.
            if not there or (one.volume not in there and self._helps(one.volume, there)):
                there.add(one.volume)
                yield self._step(
                    GarbageAction.UNTRASH, one.volume, one.size, "a collection names it"
                )

    def _copy(self, size: int, there: set[str]) -> Iterator[GarbageStep]:
        """Copy the block to volumes that lack it, and add them to `there`."""
        writable = (one.place for one in self._volumes.values() if not one.is_read_only)
        # The volumes that a put would choose first get the copies.
        for place in order(writable, self._hash):
            has_room = place.uuid not in there and place.free >= size
            if has_room and self._helps(place.uuid, there):
                lacks = ", ".join(self._lacks(there))
                there.add(place.uuid)
                yield self._step(GarbageAction.PULL, place.uuid, size, f"too few copies in {lacks}")

    def throw_surplus(self, held: Sequence[Replica], terms: Terms) -> Iterator[GarbageStep]:
        """Surplus copies, the least preferred first."""
        if self._is_fixed or not terms.may_trash:
            return
        there = {one.volume: one for one in held}
        ranking = [
            place.uuid for place in order((self._volumes[uuid].place for uuid in there), self._hash)
        ]
        # The reverse of the order of puts, volumes of unneeded classes before all others.
        ranking.reverse()
        for uuid in sorted(ranking, key=self._is_of_use):
            rest = there.keys() - {uuid}
            replica = there[uuid]
            # The rest without this one must still satisfy every class.
            if (
                rest
                and not self._volumes[uuid].is_read_only
                and _is_old(replica, terms)
                and not self._lacks(rest)
            ):
                del there[uuid]
                yield self._step(
                    GarbageAction.TRASH,
                    uuid,
                    replica.size,
                    "there are copies enough",
                    replica.moment_ns,
                )

    def _is_of_use(self, uuid: str) -> bool:
        return any(name in self._need for name in self._volumes[uuid].place.classes)

    def _helps(self, uuid: str, there: set[str]) -> bool:
        classes = self._volumes[uuid].place.classes
        return any(name in classes for name in self._lacks(there))

    def _lacks(self, there: set[str]) -> list[str]:
        return [name for name, count in self._need.items() if self._copies(name, there) < count]

    def _copies(self, name: str, there: set[str]) -> int:
        places = (self._volumes[uuid].place for uuid in there)
        return sum(
            _UNLIMITED if place.copies is None else place.copies
            for place in places
            if name in place.classes
        )

    def _step(
        self, kind: GarbageAction, volume: str, size: int, reason: str, moment_ns: int = 0
    ) -> GarbageStep:
        return GarbageStep(
            kind=kind, hash=self._hash, size=size, volume=volume, moment_ns=moment_ns, reason=reason
        )


def _throw_unnamed(
    hash: str, held: Sequence[Replica], volumes: Mapping[str, GarbageVolume], terms: Terms
) -> Iterator[GarbageStep]:
    for one in held:
        # A young block may belong to a collection that is being written.
        if terms.may_trash and _is_old(one, terms) and not volumes[one.volume].is_read_only:
            days = (terms.now_ns - one.moment_ns) // DAY_NS
            why = f"no collection names it, last put {days} days ago"
            yield _removal(GarbageAction.TRASH, hash, one, why)


# Deletes replicas whose time in the trash is over.
def _empty(hash: str, thrown: Sequence[Replica], terms: Terms, why: str) -> Iterator[GarbageStep]:
    lifetime = max(terms.lifetime_ns, terms.grace_ns)
    for one in thrown:
        if terms.may_trash and one.moment_ns + lifetime < terms.now_ns:
            days = (terms.now_ns - one.moment_ns) // DAY_NS
            yield _removal(GarbageAction.DELETE, hash, one, f"{days} days in the trash, {why}")


def _removal(kind: GarbageAction, hash: str, one: Replica, why: str) -> GarbageStep:
    return GarbageStep(
        kind=kind, hash=hash, size=one.size, volume=one.volume, moment_ns=one.moment_ns, reason=why
    )


# Older than the life of a signature: no valid signature can name it any more.
def _is_old(replica: Replica, terms: Terms) -> bool:
    return replica.moment_ns + terms.grace_ns < terms.now_ns
