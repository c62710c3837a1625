"""An engine that adopts containers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from msgspec import structs

from lading.supervisor.engines import EngineSettings, Exit
from lading.supervisor.engines.adoption import PROCESS, RunningContainer
from lading.testing.engine import StubEngine

RUNNING = RunningContainer(pid=os.getpid(), config={"process": {}}, root_directory="")


class AdoptingStub(StubEngine):
    """The stub engine; a container that it adopts ends when `is_over` is set."""

    def __init__(self, settings: EngineSettings) -> None:
        super().__init__(settings)
        self.is_over = asyncio.Event()
        self.locks: dict[str, int] = {}
        self.adopted: RunningContainer | None = None

    def running(self) -> tuple[RunningContainer, dict[str, int]] | None:
        """The command."""
        pid = self.pid
        return None if pid is None else (structs.replace(RUNNING, pid=pid), dict(self.locks))

    def adopt(self, container: RunningContainer, descriptors: Mapping[str, int]) -> None:
        """Go on."""
        self._called("adopt")
        assert PROCESS in descriptors
        self.adopted = container

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        """Wait for the end."""
        if self.adopted is None:
            return await super().run(stop=stop, stop_grace=stop_grace)
        self._called("run")
        waits = [asyncio.ensure_future(event.wait()) for event in (stop, self.is_over)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        return Exit(code=5)
