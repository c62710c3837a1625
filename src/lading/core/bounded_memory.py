"""Bounded memory, so that one client cannot exhaust a process.

- `BytePool` grants memory to holders whose needs grow. A holder with a part of its memory may wait
  for more, so more is granted only as long as all holders can finish one after the other, the one
  with the smallest need first (the banker's algorithm): waiting holders never block each other for
  ever. Source: E. W. Dijkstra, EWD 108.
- `LruMap` is a cache of bounded size; the values that were not used for longest go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class PoolClaim:
    """Memory of one holder in bytes: `taken` now, `size` in the end."""

    __slots__ = ("size", "taken")

    def __init__(self, size: int) -> None:
        self.taken = 0
        self.size = size

    @property
    def missing(self) -> int:
        """Bytes still needed."""
        return self.size - self.taken


class BytePool:
    """At most `limit` bytes in all, which must be at least the largest claim."""

    __slots__ = ("_growing", "_promised", "limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._growing: dict[PoolClaim, None] = {}
        self._promised = 0
        """Sum of the bytes held by unfinished claims."""

    def fits(self, claim: PoolClaim, amount: int) -> bool:
        """Whether the claim can get `amount` more bytes such that all can finish afterwards."""
        if self.taken + amount > self.limit:
            return False
        total = claim.taken + amount
        left = self.limit - self._promised
        if claim in self._growing:
            left += claim.taken
        needs = [
            (growing.missing, growing.taken) for growing in self._growing if growing is not claim
        ]
        if total < claim.size:
            left -= total
            needs.append((claim.size - total, total))
        # Fast path: any claim could finish first.
        if not needs or max(needs)[0] <= left:
            return True
        # The claim with the smallest need finishes first and frees what it holds, and so on.
        for missing, freed in sorted(needs):
            if missing > left:
                return False
            left += freed
        return True

    def add(self, claim: PoolClaim, amount: int) -> None:
        """Record that the claim gets `amount` more bytes; called before its `held` is changed."""
        self.taken += amount
        self._forget(claim)
        held = claim.taken + amount
        if held < claim.size:
            self._growing[claim] = None
            self._promised += held

    def remove(self, claim: PoolClaim) -> None:
        """Record the end of the claim."""
        self._forget(claim)
        self.taken -= claim.taken

    def _forget(self, claim: PoolClaim) -> None:
        if claim in self._growing:
            del self._growing[claim]
            self._promised -= claim.taken


class LruMap(Generic[_Key, _Value]):
    """Values by key whose sizes sum up to at most `limit`, in the unit of the sizes.

    The latest value stays even if it alone is larger. Not safe for threads.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: _Key) -> bool:
        """Whether a value is there; that is no use of it."""
        return key in self._entries

    def get(self, key: _Key) -> _Value | None:
        """The value, which is used by that, or None."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: _Key, value: _Value, size: int = 1) -> None:
        """Add or replace a value."""
        self._size += size - self._entries.pop(key, (None, 0))[1]
        self._entries[key] = value, size
        while self._size > self._limit and len(self._entries) > 1:
            self._size -= self._entries.popitem(last=False)[1][1]
