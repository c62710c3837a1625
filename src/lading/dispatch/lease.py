"""The lease of a dispatcher's token: one process at a time works with it.

The server gives the lease to one process for TERM, and the process renews it every third of that.
Another process with the token waits and takes it over once it has expired. Each process has an id
of its own, which goes with every call: the server compares it with the lease in the transaction of
the call, so that a process that was stopped meanwhile, and was replaced, changes no record. What
it does without the server - signals, machines of a cloud - it does only while its lease has not
expired by its own clock (`check`), which counts from before the call that renewed it.

Source: docs/spec/dispatch, section Leases.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from lading.client.api import ApiClient
from lading.core.errors import Conflict, LadingError, Unavailable
from lading.dispatch.settings import DispatchSettings
from lading.process.concurrency import cancel_all
from lading.process.telemetry import event

TERM: Final = 30.0
"""Seconds for which the server gives a lease."""
# Seconds between two tries to take the lease over.
_WAIT: Final = 2.0
# Seconds of one call.
_TIMEOUT: Final = 10.0
# Seconds for the release: the end of the process must not take longer.
_PARTING: Final = 2.0
_logger = logging.getLogger("lading.dispatch")


def boot_time() -> float:
    """Seconds on a clock that goes on while the process, or the machine, is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class DispatcherLease:
    """The lease that this process holds, or wants, as `holder` (HOST:DIRECTORY). Calls of `client`
    go with it once it was taken.
    """

    def __init__(
        self,
        client: ApiClient,
        holder: str,
        *,
        settings: DispatchSettings,
        clock: Callable[[], float] = boot_time,
        wait: float = _WAIT,
    ) -> None:
        self.id = os.urandom(12).hex()
        self.on_held: Callable[[], None] = lambda: None
        """Called when it is held again after it had expired."""
        self._client = client
        self._holder = holder
        self._settings = settings
        self._clock = clock
        self._wait = wait
        self._until = float("-inf")
        self._requested = asyncio.Event()

    @property
    def is_held(self) -> bool:
        """Whether it has not expired, by the clock of this process. One that has expired is renewed
        at once.
        """
        if self._clock() < self._until:
            return True
        self._requested.set()
        return False

    def check(self) -> None:
        """Check that it is held. Raises Conflict."""
        if not self.is_held:
            raise Conflict(
                "the lease of this dispatcher's token has expired; nothing is done until the "
                "server has renewed it"
            )

    async def take(self, on_wait: Callable[[], None] = lambda: None) -> None:
        """Take the lease; wait while another process has it, or the API does not answer. `on_wait`
        is called when another process has it.
        """
        pause, last_reason = self._settings.retry_first, ""
        while True:
            try:
                await self._renew()
                self._client.lease = self.id
                return
            except Conflict as error:
                if not last_reason:
                    event(_logger, "dispatcher waits", why=error)
                    on_wait()
                last_reason, pause = error.message, self._settings.retry_first
                await asyncio.sleep(self._wait)
            except Unavailable as error:
                event(_logger, "the API does not answer yet", why=error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._settings.retry_longest)

    async def keep(self) -> None:
        """Renew the lease for ever. Raises Conflict when another process has taken it over."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(TERM / 3):
                    await self._requested.wait()
            self._requested.clear()
            was_held = self._clock() < self._until
            try:
                await self._renew()
            except Conflict:
                raise
            except LadingError as error:
                event(_logger, "lease not renewed", why=error)
                await asyncio.sleep(self._settings.retry_first)
                self._requested.set()
                continue
            if not was_held:
                self.on_held()

    async def release(self) -> None:
        """Give it up: another process need not wait for its end then."""
        self._until = float("-inf")
        with suppress(LadingError, TimeoutError):
            async with asyncio.timeout(_PARTING):
                await self._post(release=True)

    async def _renew(self) -> None:
        began = self._clock()
        await self._post()
        # Counted from before the call: the server counts from later.
        self._until = began + TERM

    async def _post(self, **more: bool) -> None:
        body = {"items": {}, "events": [], "holder": self._holder, "lease": self.id, **more}
        await self._client.request("POST", "dispatch/statuses", body=body, timeout=_TIMEOUT)


@asynccontextmanager
async def holding(
    lease: DispatcherLease, *, on_wait: Callable[[], None] = lambda: None
) -> AsyncGenerator[None]:
    """Hold the lease while inside; waits for it first.

    When another process takes it over, the inside is cancelled, and Conflict is raised.
    """
    await lease.take(on_wait)
    try:
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(lease.keep(), name="lease")
            try:
                yield
            finally:
                await cancel_all(keeping)
    except BaseExceptionGroup as failures:
        # A lost lease is reported in one sentence, and what the inside raised as it was raised.
        lost = failures.subgroup(Conflict)
        shown = (lost or failures).exceptions
        raise (shown[0] if lost is not None or len(shown) == 1 else failures) from None
    finally:
        await lease.release()
