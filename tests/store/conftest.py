"""A prepared database, of each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.store.database import Database
from tests.databases import a_database


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with a_database(request, tmp_path) as made:
        yield made
