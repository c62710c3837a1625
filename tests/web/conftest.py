from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.web.browsing import Browser, PageSite, page_site


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[PageSite]:
    """A site with the page."""
    async with page_site(tmp_path) as made:
        yield made


@pytest.fixture
async def browser(here: PageSite) -> Browser:
    """A browser of the admin."""
    return await here.logged_in()
