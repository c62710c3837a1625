"""Bodies of requests, at a least rate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from starlette.requests import Request

from lading.core.errors import from_status
from lading.core.protocols.transfer_rates import MinimumRate

WINDOW: Final = 30.0
"""Seconds below the least rate after which a slow body is refused."""


async def read_paced(incoming: Request, rate: int) -> AsyncGenerator[bytes]:
    """The body in pieces, at `rate` bytes a second or more; 0 disables the limit. Raises
    RequestError (408).
    """
    # 0 disables the limit: `left` is None then.
    stream, pace = incoming.stream(), MinimumRate(rate, WINDOW)
    now = asyncio.get_running_loop().time
    while True:
        began = now()
        try:
            async with asyncio.timeout(pace.left):
                piece = await anext(stream, None)
        except TimeoutError:
            raise from_status(
                408, f"request body: fewer than {rate} bytes a second came for {WINDOW:g} s"
            ) from None
        if piece is None:
            return
        pace.note(len(piece), now() - began)
        yield piece
