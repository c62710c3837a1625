"""The turn of a container to use processors, which it waits for after a long preparation.

The supervisor sends `preparing` when its preparation takes longer than a moment; from then on
others may use its VCPUs and RAM. When all is ready it sends `asking` and waits for permission. A
quickly prepared container sends nothing. Without a listener it continues at once: too many
containers for a while are better than one that waits for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from lading.net import rpc

PREPARING = rpc.encode({"op": "preparing"})
ASKING = rpc.encode({"op": "asking"})
PATIENCE = 0.5
"""Seconds of preparation before VCPUs are given back."""


class Turn:
    """The turn of one container. `say` sends a message to the starter of this process; `go` returns
    when the container may continue.
    """

    def __init__(
        self,
        say: Callable[[bytes], bool],
        go: Callable[[], Awaitable[None]],
        *,
        patience: float = PATIENCE,
    ) -> None:
        self._say = say
        self._go = go
        self._patience = patience
        self._is_given_back = False

    async def prepare(self, work: Awaitable[object]) -> None:
        """Await the preparation `work`, then wait for processors. Errors of `work` are raised at
        once.
        """
        handle = asyncio.get_running_loop().call_later(self._patience, self._give_back)
        try:
            await work
        finally:
            handle.cancel()
        if self._is_given_back and self._say(ASKING):
            await self._go()

    def _give_back(self) -> None:
        self._is_given_back = self._say(PREPARING)
