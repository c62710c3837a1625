"""From the configuration to the database of a server."""

from __future__ import annotations

import os

from lading.config import Config
from lading.core.errors import Invalid
from lading.store.database import Database
from lading.store.seal import Seal
from lading.store.sqlite import SqliteDatabase
from lading.wiring.directory import DataDirectory


async def open_database(config: Config, directory: DataDirectory) -> Database:
    """PostgreSQL where the configuration names one, else the file."""
    seal, settings = Seal(config.SystemRootToken, entropy=os.urandom), config.PostgreSQL
    if not settings.Connection:
        if directory.another_socket is not None:
            raise Invalid("a second server on a directory needs PostgreSQL.Connection in the configuration")
        return SqliteDatabase(directory.database, seal=seal)
    from lading.store.postgres import PostgresDatabase

    return await PostgresDatabase.open(settings.Connection, seal=seal, readers=settings.ConnectionPool)
