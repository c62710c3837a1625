"""Notices of what the code writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from lading.hpc.notices import Notices


def _replace(folder: Path) -> None:
    (folder / "new").write_text("50")
    (folder / "new").rename(folder / "percentComplete")


@pytest.mark.parametrize("change", [lambda folder: (folder / "log").write_text("x"), _replace])
async def test_every_waiter_is_told_of_a_change(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    (tmp_path / "log").touch()
    these = Notices()
    assert these.open(tmp_path / "log", tmp_path)
    waiting = [asyncio.create_task(these.one()) for _ in range(2)]
    done, _ = await asyncio.wait(waiting, timeout=0)
    assert not done
    change(tmp_path)
    async with asyncio.timeout(180):
        await asyncio.gather(*waiting)
    these.close()


async def test_where_the_kernel_cannot_tell_one_looks(tmp_path: Path) -> None:
    these = Notices(without=0.001)
    assert not these.open(tmp_path / "not there")
    await these.one()
    these.close()
