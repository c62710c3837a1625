"""Ids of users and groups in a container that has a user namespace of its own.

Every container has the ids 0 to `PLAIN` - 1. An image may have files or a user of larger ids, as
directory services give them (1516583083). Each of these *large* ids is mapped by itself, so that
the files of an image have the same owners in a container as in any other engine.

    inside              on the machine
    0 .. PLAIN-1        first .. first+PLAIN-1
    1516583083          first+PLAIN
    1516583084          first+PLAIN+1, and so on up to first+SIZE-1

The kernel takes 340 lines of such a table (user_namespaces(7)).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from lading.core.errors import ExecutionError, Failure

SIZE: Final = 1 << 20
"""Ids of the machine that one container takes."""
MOST_LARGE: Final = 256
"""Large ids of one container."""
PLAIN: Final = SIZE - MOST_LARGE
"""Ids that every container has; larger ones are large."""


class Extent(msgspec.Struct, frozen=True):
    """`size` ids from `inside` on in the container, which are those from `outside` on the
    machine.
    """

    inside: int
    outside: int
    size: int


def large(ids: Iterable[int]) -> frozenset[int]:
    """The large ones of some ids, at most `MOST_LARGE` + 1 of them."""
    found: set[int] = set()
    for one in ids:
        if one >= PLAIN:
            found.add(one)
            if len(found) > MOST_LARGE:
                break
    return frozenset(found)


def extents(first: int, ids: Collection[int] = ()) -> tuple[Extent, ...]:
    """The map of a container whose range on the machine begins with `first`, with these large ids.

    Raises ExecutionError(IMAGE) when there are more than `MOST_LARGE`.
    """
    if len(ids) > MOST_LARGE:
        raise ExecutionError(
            f"the image has more than {MOST_LARGE} users and groups above {PLAIN - 1}, "
            "which is what a container can have: change the owners of its files, or run it where "
            "Containers.UserNamespaces is never",
            Failure.IMAGE,
        )
    singles = (Extent(one, first + PLAIN + n, 1) for n, one in enumerate(sorted(ids)))
    return (Extent(0, first, PLAIN), *singles)
