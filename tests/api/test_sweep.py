"""The sweep."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from lading.api import sweep
from lading.core.errors import Unavailable
from lading.testing.world import World, world


async def test_trash_goes_for_good(it: World) -> None:
    made = await it.collection({"a": b"x"}, trash_at="2026-01-03")
    it.clock.advance(2 * 86400)
    await sweep.sweep(it.app.services)
    path = f"collections/{made['uuid']}"
    assert (await it.ok("GET", path, params={"include_trash": True}))["is_trashed"]
    it.clock.advance(30 * 86400)
    await sweep.sweep(it.app.services)
    assert (await it.request("GET", path, params={"include_trash": True})).status == 404


async def test_old_spools_go(it: World) -> None:
    it.app.services.spool.append("c", "a.txt", b"x", offset=0)
    os.utime(it.root / "live" / "c", (0, 0))
    await sweep.sweep(it.app.services)
    assert it.app.services.spool.names("c") == []


async def test_it_goes_on_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, done = [], asyncio.Event()

    async def failing(services: object) -> None:
        calls.append(services)
        if len(calls) > 1:
            done.set()
        raise Unavailable("no")

    monkeypatch.setattr(sweep, "sweep", failing)
    async with world(tmp_path, Collections={"TrashSweepInterval": 0}) as it:
        task = asyncio.create_task(it.app.tend())
        await done.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
