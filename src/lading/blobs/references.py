"""Queries of garbage collector and scrubber on collections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Named:
    """The blocks of one collection, with the desired copies in each storage class."""

    hashes: Sequence[str]
    copies: int
    classes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Hit:
    """A collection that names a block, and its files with this block."""

    uuid: str
    name: str
    files: Sequence[str]


class References(Protocol):
    """The source of the answers: the database or its API."""

    def all(self) -> AsyncIterator[Named]:
        """All collections, including the trash and past versions. Raises Unavailable."""

    def changed(self, since: float) -> AsyncIterator[Named]:
        """Collections created or changed since a time (Unix seconds). Raises Unavailable."""

    async def naming(self, hash: str) -> list[Hit]:
        """Some of the collections that name a block. Raises Unavailable."""
        ...
