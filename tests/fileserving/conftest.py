from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.webdav.site import Site, site


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Site]:
    """A site without anonymous users."""
    async with site(tmp_path) as made:
        yield made
