"""A dispatcher that runs in the background of a test, with pauses that are too short to notice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.dispatch.fleet import Fleet
from lading.dispatch.run import run
from lading.dispatch.settings import DispatchSettings
from lading.testing.containers import FakeContainers

QUICK = DispatchSettings(
    poll_interval=0.05,
    status_interval=0.001,
    retry_first=0.001,
    retry_longest=0.01,
    kill_interval=0.005,
    kill_patience=0.05,
    linger=0.01,
    refusal_pause=0.02,
    twin_patience=60.0,
    misfit_patience=0.01,
)
EVENTS_ONLY = DispatchSettings(poll_interval=3600.0)


@asynccontextmanager
async def dispatching(
    server: FakeContainers,
    fleet: Fleet,
    *,
    settings: DispatchSettings = QUICK,
    limit: float = 180.0,
) -> AsyncIterator[None]:
    """A dispatcher of `fleet` while inside, for at most `limit` seconds.

    Raises what ends it in an ExceptionGroup, TimeoutError when the inside takes too long.
    """
    client = ApiClient(server, "secret", retry=NO_RETRY)
    async with asyncio.timeout(limit), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run(client, fleet, settings, events=server.events()))
        yield
        task.cancel()
