"""Access of the API to the block store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from lading.api.server.features import FeatureKey
from lading.core.records.schema import Record

LookAtStorage: TypeAlias = Callable[[], Awaitable[Record]]
STORAGE: Final = FeatureKey[LookAtStorage | None]("storage", lambda: None)
"""Describes the volumes and what maintenance found; None where that is not known."""


class Blocks(Protocol):
    """Access of the API to blocks: it reads saved logs and stores the content of calls."""

    async def get(self, locator: str, /) -> bytes:
        """The bytes of a block, verified. Raises NotFound, Corrupt or Unavailable."""

    async def keep(self, data: bytes, /, classes: Sequence[str] = ()) -> str:
        """Keep a block, durably, in storage classes (none: the default ones) as far as the site
        has them; its locator without signature. Raises Full, Unavailable.
        """

    async def classes(self, locators: Iterable[str], desired: Sequence[str], /) -> list[str]:
        """The desired storage classes in which every block is known to be kept."""

    async def check(self) -> None:
        """Ask whether a volume answers. Raises Unavailable, Corrupt where none does."""
