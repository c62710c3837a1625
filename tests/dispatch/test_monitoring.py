"""The address at which a dispatcher answers monitors."""

from __future__ import annotations

import aiohttp
import pytest

from lading.core.errors import Invalid
from lading.dispatch.metrics import DispatchMetrics
from lading.dispatch.monitoring import monitored


async def _ask(url: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_metrics_are_served_to_the_holder_of_the_token() -> None:
    async with monitored(DispatchMetrics(), "127.0.0.1:0", "hush") as url:
        status, text = await _ask(f"{url}/metrics", "hush")
        assert status == 200
        assert "\nlading_dispatcher_fleet_known 0.0\n" in text
        assert await _ask(f"{url}/_health/ping", "hush") == (200, '{"health": "OK"}')
        for path in ("metrics", "_health/ping"):
            status, text = await _ask(f"{url}/{path}")
            assert (status, "send the management token" in text) == (401, True)
            assert (await _ask(f"{url}/{path}", "other"))[0] == 403


async def test_an_address_that_cannot_be_served_is_refused() -> None:
    async with monitored(DispatchMetrics(), "127.0.0.1:0", "hush") as url:
        taken = url.removeprefix("http://")
        for address, token, said in (
            (taken, "hush", "MetricsAddress: '127.0.0.1:.*' cannot be served"),
            ("here", "hush", "'here'; it must be HOST:PORT"),
            ("127.0.0.1:0", "", "ManagementToken: it is empty"),
        ):
            with pytest.raises(Invalid, match=said):
                async with monitored(DispatchMetrics(), address, token):
                    pass
