"""The first records."""

from __future__ import annotations

from lading.api.bootstrap import FirstTokens
from lading.testing.world import World


async def test_it_can_be_repeated(it: World) -> None:
    changed = FirstTokens(
        admin_uuid="zzzzz-tpzed-aaaaaaaaaaaaaaa",
        admin_token_uuid="zzzzz-gj3su-aaaaaaaaaaaaaaa",
        admin_secret="other",
        dispatch_token_uuid="zzzzz-gj3su-ddddddddddddddd",
        dispatch_secret="other",
    )
    assert "other" not in repr(changed)
    await it.app.bootstrap(changed)
    assert (await it.ok("GET", "users/current"))["username"] == "admin"
    assert (await it.request("GET", "containers", token=it.dispatcher)).status == 200
    assert (await it.ok("GET", "users"))["items_available"] == 3
