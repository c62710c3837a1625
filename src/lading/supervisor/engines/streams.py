"""The streams of a container's command: descriptors 0, 1 and 2.

A process can open its descriptors again by /proc/self/fd, for writing too, and change the owner and
the mode of their files; crun gives all three to the command's user. So an input file is opened
through a read-only mount: it may belong to the cache, which all containers of the machine share. A
missing stream is /dev/null through such a mount, since its owner and mode are the machine's.
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
    """Descriptors for input, output and errors instead of the given ones (-1: none), open inside
    the context.

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
    """A descriptor of /dev/null through which its owner and mode cannot be changed; shared by all
    forks of this process.
    """
    descriptor = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    try:
        guard = reopen(descriptor, attributes=READ_ONLY)
    except OSError:
        # Before Linux 5.12 there are no idmapped mounts and no user namespaces for containers; crun
        # then makes device files for each container.
        return descriptor
    os.close(descriptor)
    return guard


def _guard(descriptor: int, namespace: UserNamespace | None, *, readonly: bool) -> int:
    # Pipes belong to this container alone.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    if namespace is not None:
        return namespace.stream(descriptor, readonly=readonly)
    try:
        return reopen(descriptor, attributes=READ_ONLY) if readonly else descriptor
    except OSError:
        # It cannot be reopened through a mount; the stream stays as it is.
        return descriptor
