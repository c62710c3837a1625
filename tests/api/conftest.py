"""A world for each test: the API on SQLite and on PostgreSQL, with a clock that moves by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.testing.world import World, world
from tests.postgres import emptied


@pytest.fixture(params=["sqlite", "postgresql"])
async def it(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    where = (
        await emptied(request.getfixturevalue("postgres"))
        if request.param == "postgresql"
        else None
    )
    async with world(tmp_path, postgresql=where) as made:
        yield made
