"""Placement of replicas: the volumes for a new block, and the copies that are confirmed.

Volumes for a new block (docs/spec/api, section Blocks, storage classes and replicas): a client
requests a number of copies in each of some storage classes. A volume counts as `copies` copies
(None: as many as requested), in each of its classes. Volumes that hold the block already come
first; then working ones, in an order drawn for each block from its hash, weighted by free space: so
volumes fill evenly, and every server draws the same order. The draw is weighted rendezvous hashing:
score = -weight / ln(u), with u from the hash of block and volume.

`replication_confirmed` and `storage_classes_confirmed` of a collection are written by programs that
count copies, and describe the blocks of that time. A content with other blocks must be counted
again, so `confirmation_after_change` resets them (docs/spec/api, section Collections).

A collection asks for storage classes (`storage_classes_desired`), which may be unknown to the site,
as in Arvados: a collection that was copied from another site keeps its wishes. The blocks are then
stored in the default classes, and an unknown class is never among `storage_classes_confirmed`:
these are the desired classes in which every block of the content was stored when the content was
confirmed.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lading.core.data import filetree, manifest
from lading.core.errors import Invalid
from lading.core.records.schema import JSON, Record
from lading.core.values import printable

# The names are sent in a header of the block store, separated by commas.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_MOST: Final = 64
# Number of values of the 64 bits that are drawn.
_SPAN = 1 << 64
CONFIRMATION: Final = (
    "replication_confirmed",
    "replication_confirmed_at",
    "storage_classes_confirmed",
    "storage_classes_confirmed_at",
)
UNCONFIRMED: Final[Record] = {
    "replication_confirmed": None,
    "replication_confirmed_at": None,
    "storage_classes_confirmed": [],
    "storage_classes_confirmed_at": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlace:
    """A volume at the time of a put: `free` bytes are left, `holds` when the block is there."""

    uuid: str
    device: str = ""
    copies: int | None = 1
    classes: frozenset[str] = frozenset({"default"})
    free: int = 1
    holds: bool = False
    fails: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredReplication:
    """Requested copies in each of the classes."""

    copies: int = 1
    classes: tuple[str, ...] = ("default",)


@dataclass(frozen=True, slots=True)
class Tally:
    """Copies made so far: the devices, all copies, the copies in each class."""

    devices: frozenset[str] = frozenset()
    copies: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)

    def with_copy(self, volume: ReplicaPlace, desired: DesiredReplication) -> Tally:
        """The tally after a copy at a place; unchanged when the device has the block already."""
        device = volume.device or volume.uuid
        if device in self.devices:
            return self
        more = desired.copies if volume.copies is None else volume.copies
        counts = dict(self.classes) | {
            name: self.classes.get(name, 0) + more for name in volume.classes
        }
        return Tally(self.devices | {device}, self.copies + more, counts)

    def lacks(self, desired: DesiredReplication) -> tuple[str, ...]:
        """The classes in which copies are still missing."""
        return tuple(name for name in desired.classes if self.classes.get(name, 0) < desired.copies)


def order(places: Iterable[ReplicaPlace], hash: str) -> list[ReplicaPlace]:
    """The places in the order of preference for the block."""
    return sorted(
        places,
        key=lambda volume: (not volume.holds, volume.fails, -_score(volume, hash), volume.uuid),
    )


def next_wave(
    ordered: Sequence[ReplicaPlace], tally: Tally, desired: DesiredReplication
) -> list[ReplicaPlace]:
    """The first places that together satisfy the missing copies, if possible; empty when no place
    helps.
    """
    wave: list[ReplicaPlace] = []
    for volume in ordered:
        lacking = tally.lacks(desired)
        if not lacking:
            break
        after = tally.with_copy(volume, desired)
        if after is not tally and any(name in volume.classes for name in lacking):
            wave.append(volume)
            tally = after
    return wave


def _score(volume: ReplicaPlace, hash: str) -> float:
    drawn = hashlib.md5(f"{hash}{volume.uuid}".encode(), usedforsecurity=False).digest()
    # Half a step keeps the share above 0, where the logarithm is undefined.
    share = (int.from_bytes(drawn[:8], "big") + 0.5) / _SPAN
    return -max(volume.free, 1) / math.log(share)


def confirmation_after_change(old: Record, new: Record) -> Record:
    """The four values after a change of content; values that the change sets itself are not
    considered.
    """
    known = {name: old[name] for name in CONFIRMATION}
    if known == UNCONFIRMED or old["portable_data_hash"] == new["portable_data_hash"]:
        return known
    # A content with fewer blocks keeps the confirmation: each of its blocks was counted.
    return known if _blocks(new) <= _blocks(old) else dict(UNCONFIRMED)


def _blocks(record: Record) -> set[str]:
    return {filetree.bare(locator) for locator in manifest.locators(record["manifest_text"])}


def check_names(label: str, classes: Iterable[object]) -> None:
    """Check the names of storage classes in an attribute. Raises Invalid."""
    count = 0
    for name in classes:
        count += 1
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Invalid(
                f"{label}: {printable(str(name)[:80])!r} is no name of a storage class; use"
                " letters, digits, '.', '_' and '-'"
            )
    if count > _MOST:
        raise Invalid(f"{label}: more than {_MOST} storage classes")


def served(
    desired: Sequence[str], offered: Collection[str], default: Sequence[str]
) -> tuple[str, ...]:
    """The desired classes that some volume offers; the default classes where none is offered."""
    return tuple(name for name in desired if name in offered) or tuple(default)


def common(desired: Iterable[str], contents: Iterable[Collection[str]]) -> list[str]:
    """The desired classes that are confirmed for each of several contents."""
    confirmed = list(contents)
    return [
        name for name in dict.fromkeys(desired) if all(name in classes for classes in confirmed)
    ]


def confirmation(classes: Sequence[str], now: str) -> Record:
    """The attributes of a collection whose content is confirmed in these classes."""
    return {
        "storage_classes_confirmed": list(classes) or UNCONFIRMED["storage_classes_confirmed"],
        "storage_classes_confirmed_at": now if classes else None,
    }


def with_warning(
    status: Mapping[str, JSON],
    classes: Sequence[str],
    *,
    site_classes: Collection[str],
    default: Sequence[str],
) -> dict[str, JSON] | None:
    """The `runtime_status` of an ended container with a warning about output classes that the site
    does not have; None where all are known.
    """
    unknown = [name for name in dict.fromkeys(classes) if name not in site_classes]
    if not unknown:
        return None
    named = ", ".join(unknown[:5])
    warning = (
        f"not confirmed: this site has no storage class {named};"
        f" output and log are kept in {', '.join(served(classes, site_classes, default)[:5])}"
    )
    changed = dict(status)
    for name in ("warning", "warningDetail"):
        earlier = str(changed.get(name) or "")
        if name == "warning":
            changed[name] = f"{earlier}; {warning}" if earlier else warning
        elif earlier:
            changed[name] = f"{earlier}\n{warning}"
    return changed
