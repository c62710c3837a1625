"""Machines whose gateways this server has tried to reach: once, then not again for a while.

A gateway that is tried loads TLS and SSH, and a firewall that drops packets costs the whole
time-out. So one attempt answers for all containers of a machine.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from lading.core.bounded_memory import LruMap
from lading.process.telemetry import event

# Seconds for which the outcome of an attempt counts: reached, and not reached.
_REACHED: Final = 3600.0
_MISSED: Final = 600.0
_MOST_HOSTS: Final = 4096
# Attempts at a time. Further machines use a tunnel for the container that asks.
_AT_ONCE: Final = 8
_logger = logging.getLogger("lading.api.gateways")


class DirectHosts:
    """The outcomes of attempts by host. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._outcomes = LruMap[str, tuple[bool, float]](_MOST_HOSTS)
        self._under_way: set[str] = set()

    async def is_reached(self, host: str, attempt: Callable[[], Awaitable[bool]]) -> bool:
        """Whether the gateways of a host can be reached. `attempt` is made where nothing is known
        and neither the host nor too many others are being tried; else the answer is no.
        """
        is_reached, until = self._outcomes.get(host) or (False, 0.0)
        if self._clock() < until:
            return is_reached
        if host in self._under_way or len(self._under_way) >= _AT_ONCE:
            return False
        self._under_way.add(host)
        try:
            is_reached = await attempt()
        finally:
            self._under_way.discard(host)
        self._note(host, is_reached=is_reached)
        event(_logger, "gateways tried", host=host, by="address" if is_reached else "tunnel")
        return is_reached

    def miss(self, host: str) -> None:
        """Note that a gateway of a host could not be reached: further containers use a tunnel."""
        if host in self._outcomes:
            self._note(host, is_reached=False)

    def _note(self, host: str, *, is_reached: bool) -> None:
        self._outcomes.put(
            host, (is_reached, self._clock() + (_REACHED if is_reached else _MISSED))
        )
