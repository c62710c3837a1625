"""The end of a site after a time without work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from lading.testing.jumping_loop import jumping
from lading.wiring.idle_shutdown import ClientActivity, end_when_idle

LIMIT = 100.0


class _Site:
    """A site on the clock of the loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.began = self.loop.time()
        self.activity = ClientActivity(self.loop.time)
        self.works_until = 0.0
        self.ended: list[float] = []
        self.call = self.activity.watched(self._app)

    @property
    def now(self) -> float:
        return self.loop.time() - self.began

    async def run(self) -> float:
        """Seconds until it has ended."""
        await end_when_idle(
            self.activity, self._has_work, limit=LIMIT, end=lambda: self.ended.append(self.now)
        )
        (ended,) = self.ended
        return ended

    async def _has_work(self) -> bool:
        return self.now < self.works_until

    async def _app(
        self,
        scope: MutableMapping[str, Any],
        _receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        _send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), scope["seconds"])


async def _nothing(*_: Any) -> Any:
    return {}


@jumping
async def test_a_site_without_work_ends_after_its_time() -> None:
    assert LIMIT <= await _Site().run() <= LIMIT * 1.1


@jumping
async def test_a_container_keeps_it() -> None:
    site = _Site()
    site.works_until = 500.0
    assert 500 + LIMIT * 0.9 <= await site.run() <= 500 + LIMIT * 1.1


@jumping
async def test_an_open_call_keeps_it_however_long_it_takes() -> None:
    site = _Site()
    listener = asyncio.create_task(site.call({"seconds": 500.0}, _nothing, _nothing))
    ended = await site.run()
    assert 500 + LIMIT <= ended <= 500 + LIMIT * 1.1
    await listener


@jumping
async def test_a_call_that_fails_ends_too() -> None:
    site = _Site()
    listener = asyncio.create_task(site.call({"seconds": 500.0}, _nothing, _nothing))
    asyncio.get_running_loop().call_later(1, listener.cancel)
    assert await site.run() <= 1 + LIMIT * 1.1
