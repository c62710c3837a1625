"""Queries of garbage collector and scrubber on the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Final

from lading.blobs.references import Hit, Named
from lading.config import Config
from lading.core.data import manifest
from lading.core.data.block_damage import files_with
from lading.core.data.locator import EMPTY_HASH
from lading.core.errors import Malformed
from lading.core.timestamps import format_time
from lading.store import references
from lading.store.database import Database, Transaction
from lading.store.references import Reference

# Manifests may be large: keep few in memory.
# Enough to show which collections a damaged block affects; the report lists no more.
_PAGE: Final = 20
_HITS: Final = 20
_Page = Callable[[Transaction, str], Coroutine[Any, Any, list[Reference]]]


class RecordedReferences:
    """Implements lading.blobs.references.References over the database."""

    def __init__(self, database: Database, config: Config) -> None:
        self._database = database
        self._copies = config.Collections.DefaultReplication
        self._classes = tuple(
            name for name, one in config.StorageClasses.items() if one.get("Default")
        )

    async def all(self) -> AsyncGenerator[Named]:
        """Every collection; see References."""
        async for named in self._pages(
            lambda tx, after: references.page(tx, after=after, limit=_PAGE)
        ):
            yield named

    async def changed(self, since: float) -> AsyncGenerator[Named]:
        """Collections changed since a time; see References."""
        moment = format_time(datetime.fromtimestamp(since, UTC))
        async for named in self._pages(
            lambda tx, after: references.changed(tx, since=moment, after=after, limit=_PAGE)
        ):
            yield named

    async def naming(self, hash: str) -> list[Hit]:
        """Collections that name a block; see References."""
        async with self._database.reading() as tx:
            found = await references.naming(tx, hash, limit=_HITS)
        return [
            Hit(uuid, name, await asyncio.to_thread(_files, text, hash))
            for uuid, name, text in found
        ]

    async def _pages(self, page: _Page) -> AsyncGenerator[Named]:
        after = ""
        while True:
            async with self._database.reading() as tx:
                found = await page(tx, after)
            # Parsing takes long for large manifests, so it runs in a thread while no transaction is
            # open.
            for one in found:
                hashes = await asyncio.to_thread(_hashes, one.manifest_text)
                copies = (
                    self._copies if one.replication_desired is None else one.replication_desired
                )
                # A collection with replication 0 still needs one copy to be readable.
                yield Named(hashes, max(1, copies), one.storage_classes_desired or self._classes)
            if len(found) < _PAGE:
                return
            after = found[-1].uuid


# A manifest may name a block many times; dict.fromkeys keeps one of each, in order.
def _hashes(text: str) -> list[str]:
    return [
        hash
        for hash in dict.fromkeys(found[:32] for found in manifest.locators(text))
        if hash != EMPTY_HASH
    ]


def _files(text: str, hash: str) -> list[str]:
    try:
        return files_with(text, hash)
    # A manifest that cannot be parsed has no files to name; the hit itself is still reported.
    except Malformed:
        return []
