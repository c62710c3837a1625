"""The sweep."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from lading.api.events import timers
from lading.api.server.upkeep import UPKEEP
from lading.core.errors import Unavailable
from lading.testing.world import World, world


async def test_trash_goes_for_good(it: World) -> None:
    made = await it.collection({"a": b"x"}, trash_at="2026-01-03")
    it.clock.advance(2 * 86400)
    await timers.sweep(it.app.services)
    path = f"collections/{made['uuid']}"
    assert (await it.ok("GET", path, params={"include_trash": True}))["is_trashed"]
    it.clock.advance(30 * 86400)
    await timers.sweep(it.app.services)
    assert (await it.request("GET", path, params={"include_trash": True})).status == 404


async def test_old_spools_go(it: World) -> None:
    it.app.services.access.spool.append("c", "a.txt", b"x", offset=0)
    os.utime(it.root / "live" / "c", (0, 0))
    await timers.sweep(it.app.services)
    assert it.app.services.access.spool.names("c") == []


async def test_it_goes_on_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, done = [], asyncio.Event()

    async def failing(services: object) -> None:
        calls.append(services)
        if len(calls) > 1:
            done.set()
        raise Unavailable("no")

    monkeypatch.setattr(timers, "sweep", failing)
    async with world(tmp_path, Collections={"TrashSweepInterval": 0}) as it:
        task = asyncio.create_task(it.app.tend())
        await done.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_the_trail_is_kept_short(tmp_path: Path) -> None:
    async with world(tmp_path, AuditLogs={"MaxAge": 3600, "MaxDeleteBatch": 3}) as it:
        kept, gone = await it.submit("a"), await it.submit("b")
        await it.ok("DELETE", f"container_requests/{gone['uuid']}")
        it.clock.advance(3000)
        await it.ok("POST", "links", {"link_class": "tag", "name": "young"})
        it.clock.advance(1000)
        await timers.sweep(it.app.services)
        rows = (await it.ok("GET", "logs", params={"limit": 1000}))["items"]
        assert {one["event_type"] for one in rows} == {"resolve", "create"}
        assert [one["object_uuid"] for one in rows if one["event_type"] == "resolve"] == [
            kept["uuid"]
        ]
        assert (await it.ok("GET", f"container_requests/{kept['uuid']}/why"))["decision"][
            "decision"
        ] == "new"
        assert it.app.services.features[UPKEEP].shortened_to > 0
        await it.ok("POST", "links", {"link_class": "tag", "name": "another"})
        await timers.sweep(it.app.services)


@pytest.mark.parametrize("settings", [{"MaxAge": 0}, {"MaxAge": 1, "MaxDeleteBatch": 0}])
async def test_the_trail_may_be_kept(tmp_path: Path, settings: dict[str, int]) -> None:
    async with world(tmp_path, AuditLogs=settings) as it:
        before = (await it.ok("GET", "logs"))["items_available"]
        it.clock.advance(1e6)
        await timers.sweep(it.app.services)
        assert (await it.ok("GET", "logs"))["items_available"] == before


async def test_attributes_that_are_left_out(tmp_path: Path) -> None:
    async with world(tmp_path, AuditLogs={"UnloggedAttributes": ["name", "manifest_text"]}) as it:
        made = await it.ok("POST", "collections", {"name": "secret name"})
        await it.ok("PUT", f"collections/{made['uuid']}", {"description": "d"})
        rows = (
            await it.ok("GET", "logs", params={"filters": [["object_uuid", "=", made["uuid"]]]})
        )["items"]
        assert "name" not in rows[-1]["properties"]["new_attributes"]


async def test_admins_sweep_at_once(it: World) -> None:
    made = await it.ok("POST", "collections", {"name": "soon"})
    await it.ok("PUT", f"collections/{made['uuid']}", {"trash_at": "2026-01-02T03:04:06Z"})
    it.clock.advance(60)
    reply = await it.request("POST", "/sys/trash_sweep")
    assert (reply.status, reply.body) == (204, b"")
    assert (await it.ok("GET", f"collections/{made['uuid']}", params={"include_trash": True}))[
        "is_trashed"
    ]
    assert (await it.request("POST", "/sys/trash_sweep", token=await it.user("u"))).status == 403
    assert (await it.request("GET", "/sys/trash_sweep")).status == 405
