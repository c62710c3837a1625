"""Runs are polled by clients: the work for an answer does not grow with the number of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lading.client.transport import Response, Transport
from lading.core.wes.listing import PageQuery
from lading.tes.runs import WorkflowRuns
from lading.testing.asgi import AsgiTransport
from tests.tes.run_site import run_world


class CountingTransport:
    """Counts the calls of the API that another transport carries."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.calls = 0

    async def request(self, method: str, path: str, **more: Any) -> Response:
        """Count a call, and send it."""
        self.calls += 1
        return await self._inner.request(method, path, **more)


@pytest.mark.parametrize("count", [1, 40])
async def test_a_poll_is_two_calls_of_the_api(tmp_path: Path, count: int) -> None:
    async with run_world(tmp_path) as site:
        names = [await site.create({"number": number}) for number in range(count)]
        counting = CountingTransport(AsgiTransport(site.world.app))
        transport: Any = counting
        runs = WorkflowRuns(transport, image="", url="", secret=b"secret")
        page: Any = await runs.find(site.world.admin, PageQuery(256, None))
        assert ([one["run_id"] for one in page["runs"]], counting.calls) == (names[::-1], 2)
        await runs.status(site.world.admin, names[0])
        assert counting.calls == 4
