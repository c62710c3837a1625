from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.s3.site import S3Site, s3_site


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[S3Site]:
    """A site without anonymous users."""
    async with s3_site(tmp_path) as made:
        yield made
