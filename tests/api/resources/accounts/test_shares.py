"""GET fair_shares: who may read what of shares."""

from __future__ import annotations

from pathlib import Path

from lading.testing.world import World, world


async def test_nothing_is_told_without_fair_share(it: World) -> None:
    await it.submit("date")
    assert await it.ok("GET", "fair_shares") == {"enabled": False, "items": []}


async def test_users_read_the_shares_that_they_can_read(tmp_path: Path) -> None:
    async with world(tmp_path, Containers={"FairShare": {"Enabled": True}}) as it:
        ada, eve = await it.user("ada"), await it.user("eve")
        for token in (ada, eve):
            await it.submit("date", token=token, use_existing=False)
        user = await it.ok("GET", "users/current", token=ada)
        (mine,) = (await it.ok("GET", "fair_shares", token=ada))["items"]
        assert (mine["uuid"], mine["kind"], mine["weight"]) == (user["uuid"], "user", 1.0)
        assert (mine["used_vcpu_hours"], mine["waiting"], mine["held"]) == (0.0, 1, 0)
        assert len((await it.ok("GET", "fair_shares"))["items"]) == 2
