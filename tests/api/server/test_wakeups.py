"""Wake-ups of the tasks of a server."""

from __future__ import annotations

import asyncio

from lading.api.server.wakeups import Wakeups


async def test_a_bell_that_rang_before_is_remembered_once() -> None:
    alarm = Wakeups()
    alarm.wake()
    alarm.seek()
    await alarm.until_moment(60.0)
    await alarm.until_sought(60.0)
    await alarm.until_moment(0.0)


async def test_a_bell_wakes_who_waits() -> None:
    alarm = Wakeups()
    waiting = asyncio.create_task(alarm.until_moment(60.0))
    await asyncio.sleep(0)
    alarm.wake()
    await waiting
