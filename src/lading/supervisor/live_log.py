"""The live view of a log: posts the growth of the log files while the container runs (API:
containers/{uuid}/live).

The first post is made 200 ms after the start, so a shorter container costs none. Then each file
that has grown is posted every update period, or at once after a certain amount; at most 4 MiB of
each file in a period. When the server cannot accept a post, the next period tries again; the saved
log does not depend on it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from lading.client.api import ApiClient
from lading.core.errors import LadingError, RequestError, TooLarge, Unauthenticated
from lading.supervisor.logs import LIVE, Log

# Seconds.
FIRST = 0.2
# Bytes of one post.
_MOST = 1 << 20
# Posts of one file in a period.
_PIECES = 4
# Seconds for one call.
_TIMEOUT = 30.0


class LiveView:
    """Posts the growing log of one container. `api` must hold the supervisor's token and not
    retry.
    """

    def __init__(self, api: ApiClient, uuid: str, log: Log, *, on_lost: Callable[[], None]) -> None:
        self._api = api
        self._uuid = uuid
        self._log = log
        self._on_lost = on_lost
        self._sent: dict[str, int] = {}
        self._refused = False
        self._names: tuple[str, ...] = LIVE

    async def run(self, *, period: float, size: int, first: float = FIRST) -> None:
        """Post until cancelled, or until the server refuses the live view."""
        await asyncio.sleep(first)
        while not self._refused:
            await self.post()
            if self._unsent():
                # The server gets a limited amount in a period: the view falls behind, the saved log
                # does not.
                await asyncio.sleep(period)
                continue
            # Wait for the first byte without a period: a silent command costs no wake-ups.
            await self._growth(1)
            # No growth within the period: post what there is.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._growth(size), period)

    async def post(self) -> None:
        """Post the growth of every file."""
        for name in self._names:
            try:
                for _ in range(_PIECES):
                    if self._log.size(name) > self._sent.get(name, 0) and not self._refused:
                        await self._post_piece(name)
            # The server keeps no more of this file.
            except TooLarge:
                self._names = tuple(one for one in self._names if one != name)
            # The token was revoked: the container belongs to somebody else.
            except Unauthenticated:
                self._refused = True
                self._on_lost()
            except RequestError:
                self._refused = True
            # The server is away or overloaded; the next period tries again.
            except LadingError:
                return

    async def _post_piece(self, name: str) -> None:
        offset = self._sent.get(name, 0)
        with (self._log.directory / name).open("rb") as file:
            file.seek(offset)
            data = file.read(_MOST)
        path = f"containers/{self._uuid}/live/{name}"
        await self._api.raw(
            "POST", path, params={"offset": str(offset)}, body=data, timeout=_TIMEOUT
        )
        self._sent[name] = offset + len(data)

    async def _growth(self, least: int) -> None:
        """Wait until `least` bytes are unsent."""
        while self._unsent() < least:
            self._log.grown.clear()
            await self._log.grown.wait()

    def _unsent(self) -> int:
        return sum(self._log.size(name) - self._sent.get(name, 0) for name in self._names)
