"""A world for each test: the API on SQLite and on PostgreSQL, with a clock that moves by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from lading.testing.world import World, world
from tests.api.shared_queue import ON
from tests.postgres import open_with_records


@pytest.fixture(params=["sqlite", "postgresql"])
async def it(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        database = None
        if request.param == "postgresql":
            database = await open_with_records(request.getfixturevalue("postgres"))
            stack.push_async_callback(database.close)
        yield await stack.enter_async_context(world(tmp_path, database=database))


@pytest.fixture(params=["sqlite", "postgresql"])
async def fair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        database = None
        if request.param == "postgresql":
            database = await open_with_records(request.getfixturevalue("postgres"))
            stack.push_async_callback(database.close)
        yield await stack.enter_async_context(
            world(tmp_path, database=database, Containers={"FairShare": ON})
        )
