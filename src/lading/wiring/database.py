"""Opening of the configured database."""

from __future__ import annotations

import os

from lading.config import Config
from lading.core.errors import Invalid
from lading.store.database import Database
from lading.store.databases.sqlite import SqliteDatabase
from lading.store.seal import Seal
from lading.wiring.directory import DataDirectory


async def open_database(config: Config, directory: DataDirectory) -> Database:
    """PostgreSQL if configured, else the SQLite file."""
    seal, settings = Seal(config.SystemRootToken, entropy=os.urandom), config.PostgreSQL
    if not settings.Connection:
        if directory.another_socket is not None:
            raise Invalid(
                "a second server on a directory needs PostgreSQL.Connection in the configuration"
            )
        return SqliteDatabase(directory.database, seal=seal)
    # Imported here because asyncpg is not needed with SQLite.
    from lading.store.databases.postgres import PostgresDatabase

    return await PostgresDatabase.open(
        settings.Connection, seal=seal, readers=settings.ConnectionPool
    )
