"""A supervisor under test: a fake server in this process, the stub engine, a directory of its
own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lading.core.errors import LadingError
from lading.process.concurrency import StopEvent
from lading.supervisor.engines import Engine, EngineSettings
from lading.supervisor.lifecycle.driver import supervise
from lading.supervisor.lifecycle.run import Controls
from lading.supervisor.supervisor_config import SupervisorConfig
from lading.testing.asgi import AsgiTransport
from lading.testing.engine import StubEngine
from lading.testing.supervising import CONTAINER, SUPERVISOR_TOKEN, FakeServer

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
STAMP = "2026-01-02T03:04:05.000678000Z"


@dataclass
class Bench:
    """Everything around one supervisor."""

    directory: Path
    server: FakeServer = field(default_factory=FakeServer)
    stop: StopEvent = field(default_factory=StopEvent)
    flush: asyncio.Event = field(default_factory=asyncio.Event)
    reprice: asyncio.Event = field(default_factory=asyncio.Event)
    faults: dict[str, LadingError] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    out_of_memory: bool = False
    on_idle: Callable[[], None] | None = None
    engine: StubEngine | None = None
    clock: Callable[[], datetime] = lambda: MOMENT
    on_engine: Callable[[StubEngine], None] | None = None

    def add(self, script: str, **changes: Any) -> dict[str, Any]:
        """The record of a container that runs a shell script."""
        image = self.server.add_collection({"sha256:0.tar": b"an image"})
        return self.server.add_container(
            **{"command": ["sh", "-c", script], "container_image": image, **changes}
        )

    @property
    def run_directory(self) -> Path:
        return self.directory / "run" / CONTAINER

    def assignment(self) -> SupervisorConfig:
        self.run_directory.mkdir(parents=True, exist_ok=True)
        return SupervisorConfig(
            container_uuid=CONTAINER,
            supervisor_token=SUPERVISOR_TOKEN,
            run_directory=str(self.run_directory),
            cache_directory=str(self.directory / "cache"),
            api_socket="unused",
            **{
                "stop_grace_period": 5.0,
                "unreachable_timeout": 0.0,
                "api_host": "host:1",
                **self.settings,
            },
        )

    async def run(self) -> int:
        """Supervise to the end."""
        transport = AsgiTransport(self.server)
        return await supervise(
            self.assignment(),
            clock=self.clock,
            transport=transport,
            engines=self._make_engine,
            controls=Controls(
                stop=self.stop, flush=self.flush, reprice=self.reprice, on_idle=self.on_idle
            ),
        )

    def _make_engine(self, name: str, settings: EngineSettings) -> Engine:
        self.engine = StubEngine(settings, faults=self.faults, out_of_memory=self.out_of_memory)
        if self.on_engine is not None:
            self.on_engine(self.engine)
        return self.engine

    def log(self, name: str = "crunch-run.txt") -> str:
        """A file of the saved log."""
        return self.server.files(self.server.containers[CONTAINER]["log"])[name].decode()

    def output(self) -> dict[str, bytes]:
        """The files of the saved output."""
        return self.server.files(self.server.containers[CONTAINER]["output"])


def open_files() -> int:
    """How many descriptors this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))
