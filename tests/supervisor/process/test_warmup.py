from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.supervisor.process.warmup import warm_up
from tests.supervisor.supervised import open_files


async def test_it_goes_through_and_leaves_nothing(tmp_path: Path) -> None:
    run = tmp_path / ("long" * 30)
    run.mkdir()
    before = open_files()
    await warm_up(run)
    assert list(run.iterdir()) == []
    assert open_files() == before


async def test_what_others_left_that_were_killed_goes(tmp_path: Path) -> None:
    living = tmp_path / f"rehearsal-{os.getppid()}"
    for one in (living, tmp_path / f"rehearsal-{1 << 30}", tmp_path / "rehearsal-x"):
        (one / "run").mkdir(parents=True)
    await warm_up(tmp_path)
    assert list(tmp_path.iterdir()) == [living]


async def test_where_nothing_can_be_made_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await warm_up(tmp_path / "none")
