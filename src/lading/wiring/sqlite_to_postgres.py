"""Move of the records of a data directory from SQLite to PostgreSQL; the blocks stay.

The directory must not be served during the move. The SQLite file is kept under another name: to go
back, remove `PostgreSQL.Connection` from the configuration and rename the file.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime

from lading.core.errors import Invalid
from lading.core.timestamps import format_time
from lading.store.databases.copying import copy_records
from lading.store.databases.postgres import PostgresDatabase
from lading.store.databases.sqlite import SqliteDatabase
from lading.store.schema import prepare
from lading.store.seal import Seal
from lading.wiring.directory import DataDirectory

MOVED = "db.sqlite.moved"


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
    held = directory.claim()
    try:
        copied = asyncio.run(_copy(directory, progress))
        # After the copy has succeeded only; the file stays for the way back.
        directory.database.rename(directory.root / MOVED)
    finally:
        os.close(held)
    return copied


async def _copy(directory: DataDirectory, progress: Callable[[int, int], None]) -> dict[str, int]:
    config = directory.config(directory.secrets(), address="localhost:1")
    if not config.PostgreSQL.Connection:
        raise Invalid(
            f"{directory.root / 'config.yml'}: name the new database first, "
            "in PostgreSQL.Connection"
        )
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
