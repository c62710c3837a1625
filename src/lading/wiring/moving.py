"""From SQLite to PostgreSQL: the records of a data directory move, the blocks stay where they are.

The directory must not be served meanwhile. Its SQLite file is left as it was, under another name, so that one can go
back by taking `PostgreSQL.Connection` out of the configuration and giving the file its name again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime

from lading.core.errors import Invalid
from lading.core.timestamps import format_time
from lading.store.copying import copy_records
from lading.store.postgres import PostgresDatabase
from lading.store.schema import prepare
from lading.store.seal import Seal
from lading.store.sqlite import SqliteDatabase
from lading.wiring.directory import DataDirectory

MOVED = "db.sqlite.moved"


def move_records(directory: DataDirectory, *, progress: Callable[[int, int], None]) -> dict[str, int]:
    """Copy all records into the PostgreSQL database that the configuration names; how many of each kind.

    Raises Invalid when the configuration names none or there is nothing to move, Conflict when the directory is served
    or the database is not empty, and what the databases raise.
    """
    if not directory.database.exists():
        raise Invalid(f"{directory.database}: no records there; name the directory with --data")
    held = directory.claim()
    try:
        copied = asyncio.run(_copy(directory, progress))
        directory.database.rename(directory.root / MOVED)
    finally:
        os.close(held)
    return copied


async def _copy(directory: DataDirectory, progress: Callable[[int, int], None]) -> dict[str, int]:
    config = directory.config(directory.secrets(), address="localhost:1")
    if not config.PostgreSQL.Connection:
        raise Invalid(f"{directory.root / 'config.yml'}: name the new database first, in PostgreSQL.Connection")
    seal, now = Seal(config.SystemRootToken, entropy=os.urandom), format_time(datetime.now(UTC))
    async with AsyncExitStack() as stack:
        target = await PostgresDatabase.open(config.PostgreSQL.Connection, seal=seal)
        stack.push_async_callback(target.close)
        source = SqliteDatabase(directory.database, seal=seal)
        stack.push_async_callback(source.close)
        await prepare(target, now=now)
        await prepare(source, now=now)
        return await copy_records(source, target, progress=progress)
