"""What the upkeep of the block store asks about collections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Named:
    """The blocks that one collection names, and how many copies it needs of each in which classes."""

    hashes: Sequence[str]
    copies: int
    classes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Hit:
    """A collection that has a certain block, and the files in it that do."""

    uuid: str
    name: str
    files: Sequence[str]


class References(Protocol):
    """Asks the records."""

    def all(self) -> AsyncIterator[Named]:
        """Every collection, also those in the trash and old versions. Raises Unavailable."""

    def changed(self, since: float) -> AsyncIterator[Named]:
        """Those that were made or changed since a time (Unix seconds). Raises Unavailable."""

    async def naming(self, hash: str) -> list[Hit]:
        """Some of the collections that name a block. Raises Unavailable."""
        ...
