"""Size of the pages of long work: so many records that a transaction takes some STEP seconds."""

from __future__ import annotations

from typing import Final

STEP: Final = 0.016
"""Seconds that a transaction is to take: other writers wait for no longer."""


class PageSize:
    """The number of records of the next page, from `least` to `most`. It begins with `least`."""

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most
        self.records = least

    def fit(self, taken: float) -> None:
        """Choose the size of the next page after one that took so many seconds."""
        # Twice as many at most: one short transaction says little.
        room = min(self.records * STEP / max(taken, 0.0001), self.records * 2)
        self.records = max(self._least, min(self._most, int(room)))
