"""Databases of each kind, prepared and empty, for tests that take both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lading.store import schema
from lading.store.database import Database
from lading.store.databases.sqlite import SqliteDatabase
from lading.testing.world import make_seal
from tests.postgres import open_emptied


@asynccontextmanager
async def a_database(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[Database]:
    """The kind of database that the parameter of the fixture names."""
    if request.param == "sqlite":
        made: Database = SqliteDatabase(directory / "db", seal=make_seal())
        await schema.prepare(made, now="now")
    else:
        made = await open_emptied(request.getfixturevalue("postgres"))
    try:
        yield made
    finally:
        await made.close()
