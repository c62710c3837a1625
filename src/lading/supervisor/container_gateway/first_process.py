"""The first process of the container, which the record announces before it exists.

The record is Running before any code of the user starts, and the gateway's address is written with
it. A caller who enters at once comes before the engine has started the command.
"""

from __future__ import annotations

import asyncio
from typing import Final

from lading.core.errors import Unavailable
from lading.supervisor.engines import Engine

# Seconds in which an engine starts a command on a busy machine. The end of the container ends
# its gateway, and with it this wait.
_PATIENCE: Final = 30.0
# Seconds between two looks.
_LOOK: Final = 0.01


async def first_process(engine: Engine, *, patience: float = _PATIENCE) -> int:
    """Number of the container's first process, once it exists. Raises Unavailable."""
    # No timeout of asyncio: the first look must not wait, and `patience` may be zero.
    loop = asyncio.get_running_loop()
    until = loop.time() + patience
    while (first := engine.first) is None:
        if loop.time() >= until:
            raise Unavailable("the container is not running; try again when it is")
        await asyncio.sleep(_LOOK)
    return first
