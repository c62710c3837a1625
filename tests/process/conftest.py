from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def top(tmp_path: Path) -> Path:
    place = tmp_path / "top"
    place.mkdir()
    return place


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A directory of the host with a file in it."""
    place = tmp_path / "host"
    place.mkdir()
    (place / "secret").write_text("of the host")
    return place
