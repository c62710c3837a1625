"""Modules and tests that the pages for contributors name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = (ROOT / "src" / "lading", ROOT)
_PATH = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")


@pytest.mark.parametrize(
    "page", ["contributing.md", "architecture.md", "performance.md", "storage.md"]
)
def test_modules_of_a_page_are_there(page: str) -> None:
    named = set(_PATH.findall((ROOT / "docs" / page).read_text()))
    assert [
        one for one in sorted(named) if not any((place / one).is_file() for place in PLACES)
    ] == []
