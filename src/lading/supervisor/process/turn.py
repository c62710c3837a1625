"""Whose turn it is to take VCPUs: a container whose image and inputs take long to make ready gives
its own back.

The supervisor says `preparing` when that takes longer than a moment; from then on others may have
its VCPUs and RAM. When all is ready it says `asking`, and waits until it is told to go on. A
container that is prepared quickly says nothing. Where nobody listens any more, it goes on at once:
too many containers for a while are better than one that waits for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from lading.core.protocols import messages

PREPARING = messages.encode({"op": "preparing"})
ASKING = messages.encode({"op": "asking"})
PATIENCE = 0.5
"""Seconds of preparation before VCPUs are given back."""


class Turn:
    """The turn of one container. `say` tells a word to who started it; `go` returns when it may go
    on.
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
        """Do the work of a preparation, then have VCPUs. What the work raises is raised at once."""
        handle = asyncio.get_running_loop().call_later(self._patience, self._give_back)
        try:
            await work
        finally:
            handle.cancel()
        if self._is_given_back and self._say(ASKING):
            await self._go()

    def _give_back(self) -> None:
        self._is_given_back = self._say(PREPARING)
