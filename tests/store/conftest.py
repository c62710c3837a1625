"""A prepared database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.store import schema
from lading.store.database import Database
from lading.store.sqlite import SqliteDatabase
from lading.testing.sealing import make_seal


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    made = SqliteDatabase(tmp_path / "db", seal=make_seal())
    await schema.prepare(made, now="now")
    yield made
    await made.close()
