"""Remarks about entries of a list that may be very long: the first are named, all are counted."""

from __future__ import annotations

import msgspec

MAX_NAMED = 20
"""Maximum number of entries that a list of remarks names; further ones are counted."""


class Remarks(msgspec.Struct, frozen=True):
    """Sentences about the first `MAX_NAMED` entries of one kind, and the number of all of them."""

    sentences: tuple[str, ...] = ()
    count: int = 0

    def lines(self) -> tuple[str, ...]:
        """The sentences, and the number of the entries that they do not name."""
        more = self.count - len(self.sentences)
        return (*self.sentences, f"and {more} more") if more else self.sentences


class RemarkList:
    """Collects remarks, in bounded memory."""

    def __init__(self) -> None:
        self._sentences: list[str] = []
        self.count = 0

    def add(self, sentence: str) -> None:
        """Count an entry, and keep its sentence if it is one of the first."""
        self.count += 1
        if len(self._sentences) < MAX_NAMED:
            self._sentences.append(sentence)

    def remarks(self) -> Remarks:
        """The remarks about the entries so far."""
        return Remarks(tuple(self._sentences), self.count)
