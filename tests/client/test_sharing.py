"""Permission links."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.client import sharing
from lading.client.api import ApiClient
from lading.core.errors import NotFound
from tests.webdav.site import site


async def test_a_party_has_one_level(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        api = ApiClient(here.transport, here.world.admin)
        uuid = await here.collection({"a": b"1"})
        await here.world.user("jane")
        party = await sharing.find_party(api, "jane", uuid[:5])
        for level in ("can_read", "can_manage", "can_write"):
            await sharing.set_level(api, uuid, party, level)
        (link,) = await sharing.list_permissions(api, uuid)
        assert (link["who"], link["can"]) == ("jane", "write")
        assert len(await sharing.links_of(api, uuid, party)) == 1
        with pytest.raises(NotFound, match="nobody"):
            await sharing.find_party(api, "nobody", uuid[:5])
