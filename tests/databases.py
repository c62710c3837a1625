"""Databases of each kind, prepared and empty, for tests that take both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lading.store.database import Database
from lading.store.databases.sqlite import SqliteDatabase
from lading.testing.world import make_seal, prepared_file
from tests.postgres import open_emptied


@asynccontextmanager
async def a_database(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[Database]:
    """The kind of database that the parameter of the fixture names."""
    if request.param == "sqlite":
        path = directory / "db"
        path.write_bytes(prepared_file())
        made: Database = SqliteDatabase(path, seal=make_seal())
    else:
        made = await open_emptied(request.getfixturevalue("postgres"))
    try:
        yield made
    finally:
        await made.close()
