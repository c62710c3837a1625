"""The streams that a container's command gets as descriptors 0, 1 and 2.

A process can open its descriptors again by /proc/self/fd, for writing too, and change the owner and
the mode of what they lead to; crun gives all three to the command's user. So a file that is read is
opened through a read-only mount: it may be one of the cache, which all containers of the machine
share. What is no stream at all leads to /dev/null through such a mount, as its owner and mode are
the machine's.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lading.supervisor.engines.user_namespace import UserNamespace
from lading.supervisor.id_mapping import READ_ONLY, reopen


@contextmanager
def guarded(given: Sequence[int], namespace: UserNamespace | None) -> Iterator[tuple[int, ...]]:
    """Descriptors for input, output and errors instead of those given (-1: none), there until the
    container has them.

    Raises OSError.
    """
    opened: list[int] = []
    try:
        used = []
        for number, descriptor in enumerate(given):
            guard = (
                null() if descriptor < 0 else _guard(descriptor, namespace, readonly=number == 0)
            )
            if descriptor >= 0 and guard != descriptor:
                opened.append(guard)
            used.append(guard)
        yield tuple(used)
    finally:
        for descriptor in opened:
            os.close(descriptor)


@functools.lru_cache(maxsize=1)
def null() -> int:
    """/dev/null, whose owner and mode cannot be changed by it; open for all that are forked from
    this process.
    """
    descriptor = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    try:
        guard = reopen(descriptor, attributes=READ_ONLY)
    except OSError:
        # A kernel before 5.12 has user namespaces for no container either: crun makes each a device
        # file of its own.
        return descriptor
    os.close(descriptor)
    return guard


def _guard(descriptor: int, namespace: UserNamespace | None, *, readonly: bool) -> int:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    if namespace is not None:
        return namespace.stream(descriptor, readonly=readonly)
    try:
        return reopen(descriptor, attributes=READ_ONLY) if readonly else descriptor
    except OSError:
        return descriptor
