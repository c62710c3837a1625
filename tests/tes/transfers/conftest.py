"""A mean server, and a world whose tasks may reach it and have directories."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.core.records.schema import JSON
from tests.tes.outside import MeanServer, mean_server
from tests.tes.site import TaskWorld, task_world


@pytest.fixture
async def server() -> AsyncIterator[MeanServer]:
    async with mean_server() as made:
        yield made


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[TaskWorld]:
    for name in ("files", "world", "read"):
        (tmp_path / name).mkdir()
    users = ["zzzzz-tpzed-aaaaaaaaaaaaaaa", "ann"]
    roots = {
        "/data": {"Path": str(tmp_path / "files"), "Write": True, "Users": users},
        "/read": {"Path": str(tmp_path / "read")},
    }
    settings: JSON = {"AllowedNetworks": ["127.0.0.0/8"], "FileRoots": roots}
    async with task_world(tmp_path / "world", TES=settings) as made:
        yield made
