"""Opens the configured database, and moves records from SQLite to PostgreSQL.

- `RecordedReferences` has the queries of garbage collector and scrubber on the database.
- During the move of the records the directory must not be served; the blocks stay. The SQLite file
  is kept under another name: to go back, remove `PostgreSQL.Connection` from the configuration and
  rename the file.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Final

from lading.blobs.collector import Hit, Named
from lading.config.site import Config
from lading.core.data import manifest, placement
from lading.core.data.confirmation import CopyCount
from lading.core.data.locator import EMPTY_HASH
from lading.core.data.packing import files_with
from lading.core.errors import Invalid, Malformed
from lading.core.quantities import format_time
from lading.core.records.record_types import COLLECTIONS
from lading.store import contents, records
from lading.store.contents import StoredManifest
from lading.store.database import Database, Transaction
from lading.store.databases.copying import copy_records
from lading.store.databases.seal import Seal
from lading.store.databases.sqlite import SqliteDatabase
from lading.store.databases.upgrade_check import UpgradeCheck, check_database, check_file
from lading.store.schema import prepare
from lading.wiring.directory import DataDirectory

# Manifests may be large: keep few in memory.
_PAGE: Final = 20
# Enough to show which collections a damaged block affects; the report lists no more.
_HITS: Final = 20
_Page = Callable[[Transaction, str], Coroutine[Any, Any, list[StoredManifest]]]
MOVED = "db.sqlite.moved"


async def open_database(config: Config, directory: DataDirectory) -> Database:
    """PostgreSQL if configured, else the SQLite file."""
    seal, settings = Seal(config.SystemRootToken, entropy=os.urandom), config.PostgreSQL
    if not settings.Connection:
        if directory.another_socket is not None:
            raise Invalid(
                "a second server on a directory needs PostgreSQL.Connection in the configuration"
            )
        return SqliteDatabase(directory.database, seal=seal, cache_size=config.SQLite.CacheSize)
    # Imported here because asyncpg is not needed with SQLite.
    from lading.store.databases.postgres import PostgresDatabase

    return await PostgresDatabase.open(
        settings.Connection, seal=seal, readers=settings.ConnectionPool
    )


async def check_upgrade(directory: DataDirectory) -> UpgradeCheck:
    """List the changes of an upgrade of the database of a directory, without making them. Raises
    Invalid without data or when the database is of a later version, Unavailable when it cannot be
    reached.
    """
    config = _config_there(directory)
    if not config.PostgreSQL.Connection:
        return await asyncio.to_thread(check_file, directory.database)
    database = await open_database(config, directory)
    try:
        return await check_database(database)
    finally:
        await database.close()


async def upgrade(directory: DataDirectory) -> UpgradeCheck:
    """Bring the database to this version, as the start of a server does; what was to change.

    Raises Conflict while the directory is served, and as `check_upgrade`. Servers on other machines
    may use the same PostgreSQL database meanwhile.
    """
    config = _config_there(directory)
    lock = directory.claim()
    try:
        upgrade_check = await check_upgrade(directory)
        database = await open_database(config, directory)
        try:
            await prepare(database, now=format_time(datetime.now(UTC)))
        finally:
            await database.close()
    finally:
        os.close(lock)
    return upgrade_check


def _config_there(directory: DataDirectory) -> Config:
    if not (directory.root / "secrets.json").exists():
        raise Invalid(f"{directory.root}: no data here; name the directory with --data")
    return directory.config(directory.secrets(), address="localhost:1")


class RecordedReferences:
    """Implements lading.blobs.collector.References over the database."""

    def __init__(self, database: Database, config: Config) -> None:
        self._database = database
        self._copies = config.Collections.DefaultReplication
        self._classes = tuple(
            name for name, settings in config.StorageClasses.items() if settings.get("Default")
        )

    async def all(self) -> AsyncGenerator[Named]:
        """Every collection; see References."""
        async for named in self._pages(
            lambda tx, after: contents.references_after(tx, after=after, limit=_PAGE)
        ):
            yield named

    async def changed(self, since: float) -> AsyncGenerator[Named]:
        """Collections changed since a time; see References."""
        moment = format_time(datetime.fromtimestamp(since, UTC))
        async for named in self._pages(
            lambda tx, after: contents.references_changed(
                tx, since=moment, after=after, limit=_PAGE
            )
        ):
            yield named

    async def naming(self, hash: str) -> list[Hit]:
        """Collections that name a block; see References."""
        async with self._database.reading() as tx:
            rows = await contents.naming_block(tx, hash, limit=_HITS)
        return [
            Hit(uuid, name, await asyncio.to_thread(_files, manifest_text, hash))
            for uuid, name, manifest_text in rows
        ]

    async def record(self, counts: Sequence[tuple[Named, CopyCount]], *, at: float) -> int:
        """Record the copies of collections; see References."""
        moment, recorded = format_time(datetime.fromtimestamp(at, UTC)), 0
        async with self._database.writing() as tx:
            for named, count in counts:
                changes = placement.confirmation(count.classes, moment) | {
                    "replication_confirmed": count.copies,
                    "replication_confirmed_at": moment,
                }
                content = {"portable_data_hash": named.content}
                recorded += await records.update(
                    tx, COLLECTIONS, named.uuid, changes, expected=content
                )
        return recorded

    async def _pages(self, page: _Page) -> AsyncGenerator[Named]:
        after = ""
        while True:
            async with self._database.reading() as tx:
                collections = await page(tx, after)
            # Parsing takes long for large manifests, so it runs in a thread while no transaction is
            # open.
            for collection in collections:
                hashes = await asyncio.to_thread(_hashes, collection.manifest_text)
                copies = (
                    self._copies
                    if collection.replication_desired is None
                    else collection.replication_desired
                )
                # A collection with replication 0 still needs one copy to be readable.
                yield Named(
                    hashes,
                    max(1, copies),
                    collection.storage_classes_desired or self._classes,
                    collection.uuid,
                    collection.portable_data_hash,
                    CopyCount(
                        collection.replication_confirmed or 0, collection.storage_classes_confirmed
                    ),
                )
            if len(collections) < _PAGE:
                return
            after = collections[-1].uuid


# A manifest may name a block many times; dict.fromkeys keeps one of each, in order.
def _hashes(manifest_text: str) -> list[str]:
    return [
        hash
        for hash in dict.fromkeys(
            block_locator[:32] for block_locator in manifest.locators(manifest_text)
        )
        if hash != EMPTY_HASH
    ]


def _files(manifest_text: str, hash: str) -> list[str]:
    try:
        return files_with(manifest_text, hash)
    # A manifest that cannot be parsed has no files to name; the hit itself is still reported.
    except Malformed:
        return []


def move_records(
    directory: DataDirectory, *, progress: Callable[[int, int], None]
) -> dict[str, int]:
    """Copy all records to the configured PostgreSQL database; return the number of each kind.

    Raises Invalid without a configured database or without records, Conflict when the directory is
    served or the database is not empty, and errors of the databases.
    """
    if not directory.database.exists():
        raise Invalid(f"{directory.database}: no records there; name the directory with --data")
    # The lock of `lading up`: the directory cannot be served during the move.
    lock = directory.claim()
    try:
        copied = asyncio.run(_copy(directory, progress))
        # After the copy has succeeded only; the file stays for the way back.
        directory.database.rename(directory.root / MOVED)
    finally:
        os.close(lock)
    return copied


async def _copy(directory: DataDirectory, progress: Callable[[int, int], None]) -> dict[str, int]:
    config = directory.config(directory.secrets(), address="localhost:1")
    if not config.PostgreSQL.Connection:
        raise Invalid(
            f"{directory.root / 'config.yml'}: name the new database first, "
            "in PostgreSQL.Connection"
        )
    from lading.store.databases.postgres import PostgresDatabase

    seal, now = Seal(config.SystemRootToken, entropy=os.urandom), format_time(datetime.now(UTC))
    async with AsyncExitStack() as stack:
        target = await PostgresDatabase.open(config.PostgreSQL.Connection, seal=seal)
        stack.push_async_callback(target.close)
        source = SqliteDatabase(directory.database, seal=seal)
        stack.push_async_callback(source.close)
        # Both databases have the same schema version before rows are copied.
        await prepare(target, now=now)
        await prepare(source, now=now)
        return await copy_records(source, target, progress=progress)
