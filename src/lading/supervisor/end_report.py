"""Report of the end of a container by its supervisor, with or without the results."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from pathlib import Path

from lading import confined
from lading.core.containers.container import State
from lading.core.errors import Full, LadingError
from lading.supervisor import linux
from lading.supervisor.ending import Ending, without_results
from lading.supervisor.gather_or_cancel import Interrupted, unless
from lading.supervisor.results import Results

LAST_CALL = 1.0
"""Seconds for a call in progress when the supervisor is told to stop: the server may have received
the call already.
"""
_FREE_TIME = 60.0
"""Seconds to remove the scratch of a container whose files may fill the disk of the server."""
_LAST_TIME = 5.0
"""Seconds to report the end of a container whose results nobody wants."""
_KEPT_SAVING = 60.0
"""Seconds in which results of a kept container are saved whatever signals arrive."""
_logger = logging.getLogger("lading.supervisor")


class Report:
    """Report of one container. `stop` is set when the supervisor is told to stop; `kept`: the
    container was kept after its command had failed; `started`: its command was run, and is dead.

    `untold` is left to report when the disk of the server has space again.
    """

    def __init__(self, results: Results, stop: asyncio.Event, *, kept: bool, started: bool) -> None:
        self.untold: Ending | None = None
        self._results = results
        self._stop = stop
        self._kept = kept
        self._started = started

    async def tell(self, ending: Ending, *, is_last: bool = False) -> bool:
        """Save the results and write the end; False when there was nothing to write or the server
        did not accept it.
        """
        try:
            # The container goes back to the queue: nothing of it is saved.
            if ending.state is State.QUEUED:
                giving_back = self._results.session.give_back()
                await unless(self._told_again(), giving_back, grace=LAST_CALL)
            elif ending.state is not None:
                saving = self._results.save(ending, started=self._started, is_last=is_last)
                await unless(self._told_again(), saving, grace=LAST_CALL)
        except Interrupted:
            return await self._give_up(ending)
        except (LadingError, OSError) as error:
            self._blame_server(error)
            # The server's disk is full. Removing the scratch may free it, so the end is reported
            # once more.
            if isinstance(error, Full):
                self.untold = without_results(ending, error)
            return False
        return ending.state is not None

    async def _told_again(self) -> None:
        """Wait until the supervisor is told to stop once more: the first signal ended the command,
        but the results may still be wanted.

        Dispatchers repeat their signal every few seconds. When the first signal ended the time for
        which a failed container was kept, its results are wanted, so saving gets `_KEPT_SAVING`
        seconds.
        """
        was_told = self._stop.is_set()
        self._stop.clear()
        if self._kept and was_told:
            await asyncio.sleep(_KEPT_SAVING)
            self._stop.clear()
        await self._stop.wait()

    async def _give_up(self, ending: Ending) -> bool:
        """Report the end without the unsaved results; False when the server does not accept it at
        once.
        """
        self._results.log.say("told to stop before all results were saved")
        if ending.state is State.QUEUED:
            return False
        try:
            async with asyncio.timeout(_LAST_TIME):
                await self._results.give_up(ending)
        except (LadingError, OSError) as error:
            self._blame_server(error)
            return False
        return True

    def _blame_server(self, error: Exception) -> None:
        uuid = self._results.session.container.uuid
        _logger.error("container=%s end not reported: %s", uuid, error)


async def free(scratch: Path) -> None:
    """Remove the scratch of a container, as far as the time allows."""
    with contextlib.suppress(OSError, confined.Stopped):
        # Errors are ignored: a partial removal may free enough space.
        await asyncio.to_thread(linux.unmount_below, scratch)
        until = asyncio.get_running_loop().time() + _FREE_TIME
        await asyncio.to_thread(confined.remove, scratch, stop=lambda: time.monotonic() > until)
