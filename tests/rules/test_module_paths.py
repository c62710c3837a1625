"""Modules and tests that the pages for contributors name are there."""

from __future__ import annotations

import re

from tests.rules.sources import PRODUCT, ROOT, refuse, text

PAGES = ("contributing.md", "architecture.md", "performance.md", "storage.md", "plugins.md")
_PATH = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")


def test_modules_that_pages_name_are_there() -> None:
    refuse(
        f"{page}: {one}"
        for page in PAGES
        for one in sorted(set(_PATH.findall(text(ROOT / "docs" / page))))
        if not any((place / one).is_file() for place in (PRODUCT, ROOT))
    )
