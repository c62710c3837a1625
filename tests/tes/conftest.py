"""A world for each test: the API, and TES as its client in the same process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tes.run_site import RunWorld, run_world
from tests.tes.site import TaskWorld, task_world


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[TaskWorld]:
    async with task_world(tmp_path) as made:
        yield made


@pytest.fixture
async def runs(tmp_path: Path) -> AsyncIterator[RunWorld]:
    async with run_world(tmp_path) as made:
        yield made
