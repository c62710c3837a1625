"""A limit of memory that is enforced by samples, where no control group enforces it.

A sample is the memory of all processes of a container at one moment. A container that has more than
its limit is ended. Between two samples it may use more: the time between them is shorter the nearer
it is to the limit, and the fastest program writes some `_FASTEST` bytes in a second.
"""

from __future__ import annotations

from lading.core.resources import GIB, format_bytes

# Bytes that a container may write to memory in a second.
_FASTEST = 4 * GIB
# Seconds between two samples: a sample costs some 0.1 ms for each process.
_SHORTEST, _LONGEST = 0.05, 0.5


def pause(used: int, limit: int) -> float:
    """Seconds until the next sample of a container that uses so many bytes."""
    return min(max((limit - used) / _FASTEST, _SHORTEST), _LONGEST)


def sentence(used: int, limit: int) -> str:
    """The reason for which a container was ended that used `used` bytes of memory."""
    return (
        f"its processes were killed because a sample found {format_bytes(used)} of memory, which is"
        f" more than its {format_bytes(limit)} of ram"
    )
