"""A mapping in memory of bounded size: the values that were not used for longest go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class LruMap(Generic[_Key, _Value]):
    """Values by key, of at most `limit` in all, in whatever unit their sizes are.

    The value that was put last stays even if it alone is larger. Not safe for threads.
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
