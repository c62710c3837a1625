"""Mounts that are made only where the image has no files: directories of a task for its inputs.

Where the image has files, the entries of such a directory are mounted one by one beside them. All
this happens before the command begins, so that the directories have the files of the supervisor
alone.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from msgspec import structs

from lading.process.confined import ConfinedTree
from lading.supervisor.engines import Bind


def settle(
    binds: Iterable[Bind], optional: Collection[str], is_occupied: Callable[[str], bool]
) -> tuple[Bind, ...]:
    """The binds, with those of the targets `optional` taken apart where `is_occupied` tells that
    the image has files at a path. Raises OSError.
    """
    all_binds = list(binds)
    targets = frozenset(bind.target for bind in all_binds)
    settled: list[Bind] = []
    for bind in all_binds:
        if bind.target in optional:
            settled += _settled(bind, targets - {bind.target}, is_occupied)
        else:
            settled.append(bind)
    return tuple(settled)


def _settled(
    bind: Bind, others: Collection[str], is_occupied: Callable[[str], bool]
) -> Iterator[Bind]:
    if not is_occupied(bind.target):
        yield bind
        return
    with ConfinedTree.open(Path(bind.source)) as tree:
        names = sorted(entry.name for entry in tree.scan())
        directories = {name for name in names if stat.S_ISDIR(tree.stat(name).st_mode)}
    for name in names:
        inner = structs.replace(
            bind, source=f"{bind.source}/{name}", target=f"{bind.target}/{name}"
        )
        # A mount of its own lies there.
        if inner.target in others:
            continue
        if name in directories:
            yield from _settled(inner, others, is_occupied)
        else:
            yield inner
