"""Access to the block store of a server without one."""

from __future__ import annotations

from lading.api.server.blocks import STORAGE
from lading.testing.world import World


async def test_a_server_that_knows_no_storage_tells_none(it: World) -> None:
    assert it.app.services.features[STORAGE] is None
    assert (await it.ok("GET", "health"))["storage"] is None
