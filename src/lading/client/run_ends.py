"""Notices the ends of runs: of all that are waited for by one connection for events."""

from __future__ import annotations

import contextlib

from lading.client.api import ApiClient
from lading.client.outcomes import EndWatch, watch_ends
from lading.client.runs import Run, errors_refuse, follow
from lading.core.errors import NotFound

_LINGERING = 2.0
"""Seconds for which the connection for events stays open when no run is waited for."""


class RunEnds:
    """The ends of the runs of one site. All methods are called in the loop of the site."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._waiting: dict[str, list[Run]] = {}
        self._ends: EndWatch | None = None

    async def expect(self, run: Run) -> None:
        """Notice the end of a run. The first call goes on until nothing is waited for."""
        # Any error: the run has ended by it (`Run.refuse`).
        with contextlib.suppress(Exception):
            await follow(run.placed)
        if run.placed.exception() is not None:
            return
        uuid = run.placed.result()
        self._waiting.setdefault(uuid, []).append(run)
        if self._ends is not None:
            # The request may be Final already, without further changes.
            self._ends.add([uuid])
            return
        with errors_refuse(self._refuse_waiting):
            async with watch_ends(self._api, self._waiting) as self._ends:
                try:
                    await self._watch(self._ends)
                finally:
                    # At once: a run that is expected from now on needs a connection of its own.
                    self._ends = None

    async def _watch(self, ends: EndWatch) -> None:
        while self._waiting or await ends.gets_more(_LINGERING):
            look = await ends.look()
            for outcome in look.ended:
                for run in self._waiting.pop(outcome.request["uuid"], ()):
                    run.end(outcome)
            for uuid in look.deleted:
                self._refuse(uuid, NotFound(f"{uuid}: was deleted"))

    def _refuse(self, uuid: str, error: Exception) -> None:
        for run in self._waiting.pop(uuid, ()):
            run.refuse(error)

    def _refuse_waiting(self, error: Exception) -> None:
        for uuid in list(self._waiting):
            self._refuse(uuid, error)
