"""Confirmation of collections: how many copies all of their blocks have, and in which classes.

The balancer counts what it has listed and records it as `replication_confirmed` and
`storage_classes_confirmed` (docs/spec/api, section Collections), as Arvados' keep-balance does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lading.core.data.placement import ReplicaPlace


@dataclass(frozen=True, slots=True)
class CopyCount:
    """The copies that each block of a collection has in each of its classes at least; and the
    classes that have every block.
    """

    copies: int = 0
    classes: tuple[str, ...] = ()

    def meets(self, copies: int, classes: Collection[str]) -> bool:
        """Whether the collection has what it asks for."""
        return self.copies >= copies and {*classes} <= {*self.classes}


def count_copies(
    hashes: Iterable[str],
    *,
    copies: int,
    classes: Sequence[str],
    volumes_of: Mapping[str, Collection[str]],
    places: Mapping[str, ReplicaPlace],
) -> CopyCount:
    """The count for a collection with these blocks, which asks for `copies` in each of `classes`.

    `volumes_of`: the uuids of the volumes that hold a block, by its hash. A volume that counts for
    any number counts for `copies`. A collection without blocks has all that it asks for.
    """
    desired = dict.fromkeys(classes)
    least = dict.fromkeys(desired, -1)
    # Most blocks are on the same few volumes.
    by_volumes: dict[frozenset[str], dict[str, int]] = {}
    for hash in hashes:
        held = frozenset(volumes_of.get(hash, ()))
        if held not in by_volumes:
            by_volumes[held] = {
                name: _copies(name, [places[uuid] for uuid in held], copies) for name in desired
            }
            for name, count in by_volumes[held].items():
                least[name] = count if least[name] < 0 else min(least[name], count)
    if not by_volumes:
        return CopyCount(copies, tuple(desired))
    return CopyCount(
        min(least.values(), default=0), tuple(name for name in desired if least[name] > 0)
    )


def _copies(name: str, places: Iterable[ReplicaPlace], desired: int) -> int:
    return sum(
        desired if volume.copies is None else volume.copies
        for volume in places
        if name in volume.classes
    )
