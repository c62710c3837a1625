"""The check of programs against a real API, without anything that runs containers."""

from __future__ import annotations

from pathlib import Path

from lading.client.api import ApiClient
from lading.client.images.program_check import check_programs
from lading.testing.asgi import AsgiTransport
from lading.testing.world import world


async def test_nothing_is_known_where_nobody_runs_it(tmp_path: Path) -> None:
    async with world(tmp_path) as place:
        api = ApiClient(AsgiTransport(place.app), place.admin)
        pdh = await place.ensure_image()
        (remark,) = await check_programs(api, pdh, ["/bin/sh"], queued=-1.0)
        assert "no worker was free" in remark
        assert await api.list("container_requests") == []


async def test_an_image_that_is_gone_is_told(tmp_path: Path) -> None:
    async with world(tmp_path) as place:
        api = ApiClient(AsgiTransport(place.app), place.admin)
        (remark,) = await check_programs(api, "0" * 32 + "+1", ["sh"])
    assert "is not known: docker image" in remark
