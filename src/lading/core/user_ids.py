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
MOST_RANGES: Final = 64
"""Ranges of one ordinary user; more are left out."""
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
    large_ids: set[int] = set()
    for number in ids:
        if number >= PLAIN:
            large_ids.add(number)
            if len(large_ids) > MOST_LARGE:
                break
    return frozenset(large_ids)


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
    singles = (Extent(large_id, first + PLAIN + n, 1) for n, large_id in enumerate(sorted(ids)))
    return (Extent(0, first, PLAIN), *singles)


def subordinate(
    content: str, names: Collection[str], *, most: int = SIZE - 1
) -> tuple[Extent, ...]:
    """The map of the ids that an ordinary user may give to others, from 1 on inside: the ranges of
    a file subuid(5) or subgid(5) for these names of the user, at most `most` ids.
    """
    rows: list[Extent] = []
    inside = 1
    for line in content.splitlines():
        name, *numbers = line.strip().split(":")
        if name not in names or len(numbers) != 2 or not all(map(str.isdecimal, numbers)):
            continue
        first, size = int(numbers[0]), min(int(numbers[1]), most + 1 - inside)
        if size > 0:
            rows.append(Extent(inside, first, size))
            inside += size
    return tuple(rows[:MOST_RANGES])


def first_ids(rows: Iterable[Extent], count: int) -> tuple[Extent, ...]:
    """A map of consecutive ids from 1 on, without those above `count`."""
    sizes = ((row, min(row.size, count + 1 - row.inside)) for row in rows)
    return tuple(Extent(row.inside, row.outside, size) for row, size in sizes if size > 0)


def inherited(users: Iterable[Extent], groups: Iterable[Extent]) -> tuple[Extent, ...]:
    """The map of a namespace below one with these maps, as many users as groups, that has all ids
    of it and its root, each under its number. The kernel lets no row span two rows of the namespace
    above.
    """
    users, groups = tuple(users), tuple(groups)
    starts = sorted({0, 1, *(row.inside for row in (*users, *groups))})
    ends = [*starts[1:], 1 + count_ids(users)]
    pairs = zip(starts, ends, strict=True)
    return tuple(Extent(start, start, end - start) for start, end in pairs if end > start)


def count_ids(rows: Iterable[Extent]) -> int:
    """Number of ids of a map."""
    return sum(row.size for row in rows)
