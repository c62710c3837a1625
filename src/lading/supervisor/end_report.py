"""How a supervisor reports the end of its container: with its results, or without them where nobody
waits for them.
"""

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
"""Seconds for what is under way when we are told to stop: a call that the server has taken is not
called off.
"""
_FREE_TIME = 60.0
"""Seconds to remove what a container wrote, when the server's disk may be full of it."""
_LAST_TIME = 5.0
"""Seconds to say the end of a container that somebody wants no results of."""
_KEPT_SAVING = 60.0
"""Seconds in which the results of a container that was kept are saved whatever we are told."""
_logger = logging.getLogger("lading.supervisor")


class Report:
    """The report of one container. `stop` is set when we are told to stop; `kept`: the container
    was kept after its command had failed; `started`: its command was run, and is dead.

    `untold` is what is left to report once the disk of the server has room again.
    """

    def __init__(self, results: Results, stop: asyncio.Event, *, kept: bool, started: bool) -> None:
        self.untold: Ending | None = None
        self._results = results
        self._stop = stop
        self._kept = kept
        self._started = started

    async def tell(self, ending: Ending, *, is_last: bool = False) -> bool:
        """Save what there is and write the end; False when there was nothing to write or the server
        did not take it.
        """
        try:
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
            if isinstance(error, Full):
                self.untold = without_results(ending, error)
            return False
        return ending.state is not None

    async def _told_again(self) -> None:
        """Wait until we are told to stop once more: whoever ended the command may still want its
        results.

        Dispatchers repeat what they say every few seconds. Where that has ended the time for which
        a failed container was kept, its results are wanted, so they get a while.
        """
        was_told = self._stop.is_set()
        self._stop.clear()
        if self._kept and was_told:
            await asyncio.sleep(_KEPT_SAVING)
            self._stop.clear()
        await self._stop.wait()

    async def _give_up(self, ending: Ending) -> bool:
        """Say the end without what is not saved; False when the server does not take it at once."""
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
    """Remove what a container wrote, as far as the time allows."""
    with contextlib.suppress(OSError, confined.Stopped):
        # What stays may still leave room enough.
        await asyncio.to_thread(linux.unmount_below, scratch)
        until = asyncio.get_running_loop().time() + _FREE_TIME
        await asyncio.to_thread(confined.remove, scratch, stop=lambda: time.monotonic() > until)
