from __future__ import annotations

from pathlib import Path

import pytest

from tests.reality import need_root
from tests.supervisor.supervised import Bench


@pytest.fixture
def as_root() -> None:
    need_root()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
