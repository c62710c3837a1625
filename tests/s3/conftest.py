from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.postgres import open_with_records
from tests.s3.site import S3Site, s3_site


@pytest.fixture(params=["sqlite", "postgresql"])
async def here(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[S3Site]:
    """A site without anonymous users."""
    async with AsyncExitStack() as stack:
        database = None
        if request.param == "postgresql":
            database = await open_with_records(request.getfixturevalue("postgres"))
            stack.push_async_callback(database.close)
        yield await stack.enter_async_context(s3_site(tmp_path, database=database))
